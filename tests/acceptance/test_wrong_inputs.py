"""Everything a user can get wrong: one clear line, the right exit code, no traceback, nothing left behind."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from support.command import Done, qdqtool
from support.small import conv_model

LFS = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 123\n"


def truncated(path: Path) -> None:
    data = conv_model().SerializeToString()
    path.write_bytes(data[: len(data) * 2 // 3])


def external(path: Path, location: str = "w.bin") -> None:
    onnx.save(conv_model(), path, save_as_external_data=True, location="w.bin", size_threshold=0)
    proto = onnx.load(path, load_external_data=False)
    for tensor in proto.graph.initializer:
        for entry in tensor.external_data:
            entry.value = location if entry.key == "location" else entry.value
    path.write_bytes(proto.SerializeToString())


def without_data(path: Path) -> None:
    external(path)
    (path.parent / "w.bin").unlink()


def link_outside(path: Path) -> None:
    external(path)
    outside = path.parent.parent / "outside.bin"
    (path.parent / "w.bin").rename(outside)
    (path.parent / "w.bin").symlink_to(outside)


WRONG_MODELS: dict[str, tuple[Callable[[Path], object], str]] = {
    "missing": (lambda path: None, "no such file"),
    "lfs_pointer": (lambda path: path.write_text(LFS), "Git LFS pointer"),
    "html": (lambda path: path.write_text("<!DOCTYPE html><html>404</html>"), "web page"),
    "truncated": (truncated, "truncated or damaged"),
    "text": (lambda path: path.write_text("not a model\n"), "text file"),
    "folder": (lambda path: path.mkdir(), "is a folder"),
    "external_missing": (without_data, "is missing from"),
    "external_climbs": (lambda path: external(path, "../w.bin"), "not a path inside"),
    "external_absolute": (lambda path: external(path, "/etc/passwd"), "not a path inside"),
    "external_link": (link_outside, "link to a file outside"),
}
PLAN = '[[tensors]]\ntensor = "w"\nformat = "int8"\nscale = 0.1\n'
NEW_OUTPUT = {
    "insert": ("--plan", "plan.toml", "-o", "out.onnx"),
    "strip": ("-o", "out.onnx"),
    "build": ("-o", "e.plan"),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    inner = tmp_path / "work"
    inner.mkdir()
    (inner / "plan.toml").write_text("schema_version = 1\n" + PLAN)
    return inner


def one_line(done: Done, code: int, text: str) -> None:
    assert done.code == code, done
    error = [line for line in done.err.splitlines() if not line.startswith("hint: ")]
    assert len(error) == 1, done.err
    assert error[0].startswith("error: ")
    assert text in error[0]


@pytest.mark.parametrize("kind", WRONG_MODELS)
@pytest.mark.parametrize("command", ["insert", "build"])
def test_unreadable_models(folder: Path, kind: str, command: str) -> None:
    make, text = WRONG_MODELS[kind]
    make(folder / "m.onnx")
    before = sorted(folder.rglob("*"))
    done = qdqtool(command, "m.onnx", *NEW_OUTPUT[command], cwd=folder)
    one_line(done, 3, text)
    assert sorted(folder.rglob("*")) == before


@pytest.mark.parametrize("command", ["inspect", "strip", "validate", "check"])
def test_every_command_refuses_an_unreadable_model(folder: Path, command: str) -> None:
    (folder / "m.onnx").write_text(LFS)
    done = qdqtool(command, "m.onnx", *NEW_OUTPUT.get(command, ()), cwd=folder)
    assert done.code == 3
    assert "Git LFS pointer" in done.err + done.out
    assert sorted(path.name for path in folder.iterdir()) == ["m.onnx", "plan.toml"]


@pytest.mark.parametrize(
    ("plan", "text"),
    [
        ("schema_version = 1\n" + PLAN.replace("scale", "scael"), "unknown key 'scael'"),
        ("schema_version = 1\n" + PLAN.replace('"w"', '"weight"'), "no float tensor matches 'weight'"),
        ("schema_version = 1\n" + PLAN.replace("0.1", "[0.1, 0.2]\naxis = 0"), "scale has shape [2]"),
        ("schema_version = 1\n" + PLAN.replace("0.1", "-0.1"), "scale is -0.1"),
        ("schema_version = 1\n" + PLAN.replace("0.1", "nan"), "scale is nan"),
    ],
)
def test_wrong_plans(folder: Path, plan: str, text: str) -> None:
    onnx.save(conv_model(), folder / "m.onnx")
    (folder / "plan.toml").write_text(plan)
    one_line(qdqtool("insert", "m.onnx", *NEW_OUTPUT["insert"], cwd=folder), 2, text)
    assert not (folder / "out.onnx").exists()


def test_an_output_folder_that_is_missing_or_cannot_be_written(folder: Path) -> None:
    onnx.save(conv_model(), folder / "m.onnx")
    one_line(qdqtool("insert", "m.onnx", "--plan", "plan.toml", "-o", "no/out.onnx", cwd=folder), 2, "does not exist")
    (folder / "file").write_text("")
    one_line(qdqtool("insert", "m.onnx", "--plan", "plan.toml", "-o", "file/out.onnx", cwd=folder), 2, "does not exist")
    if os.geteuid() == 0:
        pytest.skip("root may write anywhere; the rest is shown by test_save")
    locked = folder / "locked"
    locked.mkdir(mode=0o555)
    done = qdqtool("insert", "m.onnx", "--plan", "plan.toml", "-o", "locked/out.onnx", cwd=folder)
    one_line(done, 2, "Permission denied")


@pytest.mark.parametrize("read", ["m.onnx", "w.bin", "plan.toml", "s.npz", "d.npz"])
@pytest.mark.parametrize(
    "line",
    [
        "insert m.onnx --plan plan.toml -o {}",
        "insert m.onnx --encodings d.npz -o {}",
        "calibrate m.onnx --calib-data d.npz -o {}",
        "check m.onnx --data d.npz --save-outputs {}",
        "validate m.onnx --write-baseline {}",
        "validate m.onnx --report json={}",
    ],
)
def test_what_a_command_reads_is_never_overwritten(folder: Path, read: str, line: str) -> None:
    external(folder / "m.onnx")
    stored = PLAN.replace("0.1", "{ file = 's.npz', key = 's' }")
    (folder / "plan.toml").write_text(f"schema_version = 1\n{stored}")
    np.savez(folder / "s.npz", s=np.float32(0.1))
    np.savez(folder / "d.npz", x=np.random.default_rng(0).normal(size=(3, 1, 3, 8, 8)).astype(np.float32))
    is_read = read in {"m.onnx", "w.bin"} or read in line or (read == "s.npz" and "plan.toml" in line)
    before = (folder / read).read_bytes()
    done = qdqtool(*line.format(read).split(), cwd=folder)
    assert ("never overwritten" in done.err) is is_read, done.err
    assert not is_read or (done.code == 2 and (folder / read).read_bytes() == before)


def test_an_opset_above_what_is_known(folder: Path) -> None:
    model = conv_model()
    model.opset_import[0].version = 99
    (folder / "m.onnx").write_bytes(model.SerializeToString())
    done = qdqtool("validate", "m.onnx", "--target", "onnx", "--output-format", "json", cwd=folder)
    assert done.code == 1
    findings = json.loads(done.out)["models"][0]["targets"][0]["findings"]
    assert any("99" in finding["message"] for finding in findings)
    for command in ("insert", "strip"):
        one_line(qdqtool(command, "m.onnx", *NEW_OUTPUT[command], cwd=folder), 3, "opset 99")
    one_line(qdqtool("build", "m.onnx", *NEW_OUTPUT["build"], cwd=folder), 1, "opset 99")
    one_line(qdqtool("check", "m.onnx", cwd=folder), 4, "too new: ONNX Runtime")
    assert sorted(path.name for path in folder.iterdir()) == ["m.onnx", "plan.toml"]
