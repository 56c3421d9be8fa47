"""``qdqtool check`` as a user meets it: exit codes, JSON alone on stdout, one line for each mistake."""

import json
import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from support.command import qdqtool
from support.qdq import constant, pair_model
from support.small import make_model, nodes_of

from qdqtool.numerics.dtypes import BFLOAT16

HOSTILE = "evil\x1b[31m[/bold]\nname"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """``good.onnx``, ``bad.onnx`` (DQ scale changed by hand), ``float.onnx`` and ``data.npz``."""
    good = pair_model(TensorProto.INT8).proto
    onnx.save(good, tmp_path / "good.onnx")
    good.graph.initializer.append(constant("other", 0.11))
    good.graph.node[1].input[1] = "other"
    good.graph.node[1].name = HOSTILE
    onnx.save(good, tmp_path / "bad.onnx")
    node = helper.make_node("Identity", ["x"], ["y"])
    onnx.save(make_model([node], {"x": ("n",)}, {"y": ("n",)}, {}), tmp_path / "float.onnx")
    np.savez(tmp_path / "data.npz", x=np.linspace(-1, 1, 32, dtype=np.float32).reshape(32))
    return tmp_path


def test_json_goes_to_stdout_alone_with_the_documented_keys(folder: Path) -> None:
    done = qdqtool(
        "check", "good.onnx", "--baseline", "float.onnx", "--data", "data.npz", "--output-format", "json", cwd=folder
    )
    assert (done.code, done.err) == (0, "")
    report = json.loads(done.out)
    assert report["schema_version"] == 1
    assert report["passed"] is True
    assert report["reference"]["runtime"] == "onnxruntime"
    assert report["reference"]["options"]["graph_optimization_level"] == "ORT_DISABLE_ALL"
    assert set(report["outputs"][0]) >= {"name", "sqnr_db", "cosine", "max_abs", "max_steps", "exact"}
    assert report["boundaries"][0]["tensor"] == "x"
    assert report["data"]["samples"] == 32
    names = ["own-core", "finite", "pairs", "activations", "constants", "structure", "accuracy"]
    assert [gate["name"] for gate in report["gates"]] == names
    assert report["worst_output"]["gate"] == "accuracy"


def test_random_inputs_and_their_seed_are_said(folder: Path) -> None:
    done = qdqtool("check", "good.onnx", "--seed", "7", "--input-shapes", "x:9", cwd=folder)
    assert done.code == 0
    assert "random inputs, seed 7" in done.out
    assert "WARNING   4 gates held" in done.out


def test_a_changed_dq_scale_fails_and_hostile_names_are_escaped(folder: Path) -> None:
    done = qdqtool("check", "bad.onnx", "--baseline", "float.onnx", "--data", "data.npz", cwd=folder)
    assert done.code == 1
    assert "FAILED" in done.out
    assert "\\x1b[31m[/bold]\\nname" in done.out
    assert "\x1b" not in done.out


def test_a_missed_gate_ends_with_code_1_and_says_by_how_much(folder: Path) -> None:
    common = ("check", "good.onnx", "--baseline", "float.onnx", "--data", "data.npz")
    assert qdqtool(*common, "--min-sqnr", "10", cwd=folder).code == 0
    done = qdqtool(*common, "--min-sqnr", "90", cwd=folder)
    assert done.code == 1
    assert "min-sqnr is 90 dB, found" in done.out


def test_outputs_go_to_another_machine_and_back(folder: Path) -> None:
    common = ("check", "good.onnx", "--data", "data.npz")
    done = qdqtool(*common, "--save-outputs", "o.npz", cwd=folder)
    assert (done.code, done.err) == (0, "")
    assert "outputs of the reference in o.npz" in done.out
    done = qdqtool(*common, "--outputs", "o.npz", "--output-format", "json", cwd=folder)
    report = json.loads(done.out)
    assert (done.code, done.err) == (0, "")
    assert report["saved_outputs"]["file"] == "o.npz"
    assert report["saved_outputs"]["outputs"][0]["exact"] is True


def test_a_task_is_measured(folder: Path) -> None:
    np.savez(folder / "labelled.npz", x=np.eye(4, dtype=np.float32), labels=np.arange(4))
    node = helper.make_node("Identity", ["x"], ["y"])
    onnx.save(make_model([node], {"x": ("n", 4)}, {"y": ("n", 4)}, {}), folder / "scores.onnx")
    words = ("check", "scores.onnx", "--data", "labelled.npz", "--metric", "top-1", "--max-metric-loss", "25")
    done = qdqtool(*words, "--baseline", "scores.onnx", cwd=folder)
    assert (done.code, done.err) == (0, "")
    assert "top-1 100 % at 'y', 4 predictions" in done.out
    assert "baseline 100 %: the model loses 0 percentage points" in done.out


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("missing.onnx",), 3, "no such file"),
        (("good.onnx", "--min-cosine", "0.9"), 2, "compare with a baseline"),
        (("good.onnx", "--data", "none.npz"), 2, "no such file"),
        (("good.onnx", "--data", "data.npz", "--metric", "top-1"), 2, "add them under the key 'labels'"),
        (("good.onnx", "--data", "data.npz", "--metric", "top-5"), 2, "did you mean 'top-1'"),
        (("good.onnx", "--data", "data.npz", "--outputs", "data.npz"), 2, "'x' is no output of the model"),
        (("good.onnx", "--data", "float.onnx"), 2, "not of a known kind"),
        (("good.onnx", "--input-shapes", "y:3"), 2, "no input"),
        (("good.onnx", "--samples", "0"), 2, "--samples"),
    ],
)
def test_mistakes_give_one_line_and_the_right_code(
    folder: Path, words: tuple[str, ...], code: int, message: str
) -> None:
    done = qdqtool("check", *words, cwd=folder)
    assert done.code == code
    assert message in done.err
    assert done.out == ""


def test_what_onnxruntime_cannot_run_is_evaluated_by_our_own_core_and_said_so(tmp_path: Path) -> None:
    model = pair_model(TensorProto.FLOAT4E2M1).proto
    model.opset_import[0].version, model.ir_version = 23, 11
    onnx.save(model, tmp_path / "fp4.onnx")
    done = qdqtool("check", "fp4.onnx", cwd=tmp_path)
    assert done.code == 0
    assert "2 nodes by qdqtool (ONNX Runtime has no " in done.out
    assert "0 of 2 Q/DQ nodes checked, 2 evaluated by qdqtool alone" in done.out
    found = json.loads(qdqtool("check", "fp4.onnx", "--output-format", "json", cwd=tmp_path).out)
    assert found["reference"]["path"] == "onnxruntime+qdqtool"
    assert [(node["node"], node["evaluated_by"]) for node in found["evaluated"]] == [
        ("quant", "qdqtool"),
        ("dequant", "qdqtool"),
    ]
    assert found["qdq"] == {"total": 2, "checked": 0, "own": 2}


def test_a_model_of_bfloat16_is_quantized_measured_validated_and_checked(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    weights = {name: random.normal(size=(16, 16)).astype(BFLOAT16) for name in ("w", "v")}
    nodes = nodes_of("[one] m = MatMul (x, w) [two] r = Relu (m) [three] y = MatMul (r, v)")
    shape = {"x": (4, 16)}, {"y": (4, 16)}
    model = make_model(nodes, *shape, weights, opset=21, ir_version=10, elem_type=TensorProto.BFLOAT16)
    onnx.save(model, tmp_path / "f.onnx")
    np.savez(tmp_path / "d.npz", x=random.normal(size=(8, 4, 16)).astype(np.float32))
    given = ("--calib-data", "d.npz")
    for words in (
        ("quantize", "f.onnx", "-o", "q.onnx", *given),
        ("validate", "q.onnx"),
        ("sensitivity", "f.onnx", *given),
    ):
        done = qdqtool(*words, cwd=tmp_path)
        assert done.code == 0, done.err
    checked = ("check", "q.onnx", "--baseline", "f.onnx", "--data", "d.npz")
    done = qdqtool(*checked, cwd=tmp_path)
    assert done.code == 0, done.out
    assert "evaluated  2 nodes by qdqtool (ONNX Runtime has no kernel for a scale of type bfloat16)" in done.out
    assert "7 bfloat16 nodes ran in float32, rounded after each node" in done.out
    assert "; 4 of 6 Q/DQ nodes checked, 2 evaluated by qdqtool alone" in done.out

    wrong = onnx.load(tmp_path / "q.onnx")
    next(node for node in wrong.graph.node if node.op_type == "Relu").op_type = "Neg"
    onnx.save(wrong, tmp_path / "q.onnx")
    done = qdqtool(*checked, "--output-format", "json", cwd=tmp_path)
    report = json.loads(done.out)
    assert done.code == 1
    assert report["reference"]["path"] == "onnxruntime+qdqtool"
    assert {gate["name"] for gate in report["gates"] if not gate["passed"]} >= {"structure", "accuracy"}
    neg = next(node for node in report["evaluated"] if node["op_type"] == "Neg")
    assert (neg["evaluated_by"], neg["type"]) == ("onnxruntime-float32", "bfloat16")


def test_what_nothing_can_run_ends_with_code_4_and_names_the_node(tmp_path: Path) -> None:
    model = pair_model(TensorProto.FLOAT4E2M1).proto
    model.opset_import[0].version, model.ir_version = 23, 11
    del model.graph.node[0]
    model.graph.node.insert(0, helper.make_node("Cast", ["x"], ["q"], name="to fp4", to=TensorProto.FLOAT4E2M1))
    onnx.save(model, tmp_path / "fp4.onnx")
    done = qdqtool("check", "fp4.onnx", cwd=tmp_path)
    assert done.code == 4
    assert "'to fp4' (Cast) reads or makes float4e2m1" in done.err
    assert len(done.err.strip().splitlines()) == 2


LISTED = """
[[check]]
model = "good.onnx"
baseline = "float.onnx"
data = "data.npz"
min-sqnr = 10

[[check]]
model = "low.onnx"
baseline = "float.onnx"
data = "data.npz"
min-sqnr = 90

[[check]]
model = "broken.onnx"
"""


@pytest.fixture
def project(folder: Path) -> Path:
    """Three listed models: one that keeps its limit, one below it, and one that cannot be read."""
    (folder / "low.onnx").write_bytes((folder / "good.onnx").read_bytes())
    (folder / "broken.onnx").write_bytes(b"\xff" * 40)
    (folder / "qdqtool.toml").write_text(LISTED)
    return folder


def test_models_of_the_settings_are_all_checked(project: Path) -> None:
    done = qdqtool("check", "--report", "json=o.json", cwd=project)
    lines = done.out.splitlines()
    report = json.loads((project / "o.json").read_text())

    assert (done.code, done.err) == (3, "")
    assert lines[0].startswith("check low.onnx against float.onnx")
    assert not any(line.startswith("check good.onnx") for line in lines)
    assert any(line.startswith("PASSED   good.onnx: worst output 'y' ") for line in lines)
    assert any(line.startswith("FAILED   low.onnx: worst output 'y' ") for line in lines)
    assert lines[lines.index("FAILED   broken.onnx") + 1].startswith("  failed   the check cannot be made: broken.onnx")
    assert lines[-1] == "FAILED   3 models of qdqtool.toml: 1 passed, 2 failed"
    assert [each["verdict"] for each in report["models"]] == ["passed", "failed", "failed"]
    assert report["models"][1]["report"]["gates"][-1]["name"] == "min-sqnr"


SHOWN = {
    "concise": ("low.onnx: check: min-sqnr error [silent] output 'y': ", "broken.onnx: check: check error [refused] "),
    "github": ("::error file=low.onnx,line=1,title=min-sqnr check::", "::error file=broken.onnx,line=1,title=check "),
    "markdown": (
        "| good.onnx | check | pass: worst output 'y' ",
        "| low.onnx | check | fail: ",
        "| broken.onnx | check | fail |",
    ),
    "junit": (
        'classname="good.onnx.check" name="min-sqnr" file="good.onnx" />',
        "<failure message=\"output 'y': min-sqnr",
        '<failure message="the check cannot',
    ),
    "sarif": ('"ruleId": "min-sqnr"', '"uri": "broken.onnx"'),
    "json": ('"verdict": "passed"', '"verdict": "failed"', '"exit_code": 3'),
}


@pytest.mark.parametrize("output_format", SHOWN)
def test_every_format_shows_what_failed(project: Path, output_format: str) -> None:
    (project / ".git").mkdir()
    done = qdqtool("check", "--output-format", output_format, "--report", f"{output_format}=o", cwd=project)

    assert (done.code, done.err) == (3, "")
    assert done.out == (project / "o").read_text()
    assert [words for words in SHOWN[output_format] if words not in done.out] == []


def test_a_page_has_a_row_and_closed_sections_for_each_model(project: Path) -> None:
    done = qdqtool("check", "--report", "html=o.html", "--report", "json=o.json", cwd=project)
    page = (project / "o.html").read_text()
    again = qdqtool("report", "o.json", "-o", "again.html", cwd=project)

    assert (done.code, again.code) == (3, 0)
    assert again.out.splitlines()[-2:] == [
        "3 models of qdqtool.toml: 1 passed, 2 failed",
        "wrote again.html from 1 report",
    ]
    assert (project / "again.html").read_text().replace("o.json, model", "this run, model") == page
    assert re.findall(r'<a href="(#section-m\d-part)">(\w+.onnx)<', page) == [
        ("#section-m1-part", "good.onnx"),
        ("#section-m2-part", "low.onnx"),
        ("#section-m3-part", "broken.onnx"),
    ]
    assert re.findall(r'<span class="badge (\w+)">\w+</span></td>', page)[:3] == ["passed", "failed", "failed"]
    assert (
        page.index("limit 10 dB")
        < page.index("limit 90 dB")
        < page.index("not measured on data")
        < page.index("<main>")
    )
    assert "the check cannot be made: broken.onnx" in page
    assert "<details open" not in page
    assert page.count("</details>") > 9


def test_a_single_model_has_the_formats_too(folder: Path) -> None:
    common = ("check", "good.onnx", "--baseline", "float.onnx", "--data", "data.npz", "--output-format", "concise")
    good, low = (qdqtool(*common, "--min-sqnr", limit, cwd=folder) for limit in ("10", "90"))

    assert (good.code, good.out) == (0, "1 model, 0 errors, 0 warnings, 0 infos\n")
    assert low.code == 1
    assert low.out.startswith("good.onnx: check: min-sqnr error [silent] output 'y': min-sqnr is 90 dB, found ")


def test_options_of_the_command_line_hold_for_all_models(project: Path) -> None:
    done = qdqtool("check", "--min-sqnr", "10", "--config", "qdqtool.toml", cwd=project)
    assert "FAILED   3 models of qdqtool.toml: 2 passed, 1 failed" in done.out


def test_the_settings_are_found_from_a_folder_below(project: Path) -> None:
    (project / "deep").mkdir()
    done = qdqtool("check", "-q", cwd=project / "deep")
    assert "PASSED   ../good.onnx" in done.out


@pytest.mark.parametrize(
    ("words", "settings", "message"),
    [
        ((), None, "no MODEL is given, and there is no settings file"),
        ((), 'targets = ["tensorrt"]', "has no [[check]] table: no model would be checked"),
        (("--config", "none.toml"), LISTED, "none.toml cannot be read: No such file"),
        (("good.onnx", "--config", "qdqtool.toml"), LISTED, "leave MODEL out"),
        (("--baseline", "float.onnx"), LISTED, "--baseline is for one model"),
    ],
)
def test_mistakes_with_settings_are_one_line(
    folder: Path, words: tuple[str, ...], settings: str | None, message: str
) -> None:
    if settings is not None:
        (folder / "qdqtool.toml").write_text(settings)
    done = qdqtool("check", *words, cwd=folder)
    assert (done.code, done.out) == (2, "")
    assert message in done.err
