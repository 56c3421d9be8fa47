"""What doctor says of targets and commands."""

from pathlib import Path

import pytest

from qdqtool.cli import command
from qdqtool.jobs import doctor
from qdqtool.jobs.doctor import Component
from qdqtool.models import targets


def test_every_target_is_told_with_what_the_facts_rest_on():
    told = {each.name: each for each in doctor._targets()}

    assert list(told) == ["onnx", "ort-cpu", "tensorrt", "tensorrt-10.0 to tensorrt-11.4", "tensorrt-rtx"]
    assert set(targets.names()) < set(told)
    assert told["tensorrt-10.0 to tensorrt-11.4"].title == "TensorRT 10.0 to TensorRT 11.4"
    assert "not run by us" in told["tensorrt-10.0 to tensorrt-11.4"].verified


def test_commands_work_where_their_packages_load():
    def states(missing: str, gpu_note: str = "") -> dict[str, bool]:
        found = {
            package.module: Component(
                name=package.module,
                state="missing" if package.module == missing else "ok",
                version=None,
                note="",
                needed_for=(),
            )
            for package in doctor._PACKAGES
        }
        return {state.command: state.works for state in doctor._commands(found, gpu_note)}

    assert all(states("").values())
    without = sorted(name for name, works in states("onnxruntime").items() if not works)
    assert ", ".join(without) == (
        "calibrate, cast, check, check --engine, convert, normalize, quantize, sensitivity, validate --fix"
    )
    on_gpu = {"run", "bench", "check --engine"}
    assert {name for name, works in states("cuda.bindings").items() if not works} == on_gpu
    assert {name for name, works in states("", "no driver").items() if not works} == on_gpu
    assert not any(states("onnx").values())
    assert {name.split()[0] for name in states("")} == set(command.list_commands(None))


def test_a_package_names_the_commands_that_fail_without_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(doctor, "_version", lambda _: None)
    parts = {package.module: doctor._component(package) for package in doctor._PACKAGES}

    assert ", ".join(parts["onnx_graphsurgeon"].needed_for) == (
        "insert, strip, normalize, cast, validate --fix, calibrate, quantize, sensitivity, convert"
    )
    assert ", ".join(parts["onnxruntime"].needed_for) == (
        "normalize, cast, validate --fix, calibrate, quantize, sensitivity, convert, check, check --engine"
    )
    assert parts["pynvml"].needed_for == ("clocks in bench; optional",)
    assert parts["onnx"].needed_for == ("every command",)


@pytest.mark.slow(reason="asks every package")
def test_what_has_never_run_says_so_whether_it_works_or_not():
    for state in doctor.examine().commands:
        assert ("never run on a GPU so far" in state.remark) == (state.command in {"run", "bench", "check --engine"})


def test_the_modules_of_the_current_folder_are_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "colorsys.py").write_text("open('ran', 'w').close()")
    monkeypatch.chdir(tmp_path)
    assert doctor._import_error("colorsys") == ""
    assert not (tmp_path / "ran").exists()
