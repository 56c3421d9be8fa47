"""``validate`` and ``rules`` on the command line."""

import json
from pathlib import Path

import onnx
import pytest
from support.command import qdqtool

from qdqtool.linting import rules


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in a folder with ``bad.onnx``, ``good.onnx`` and ``doubtful.onnx``."""
    monkeypatch.chdir(tmp_path)
    for name, example in (
        ("bad", rules.get("QP101").INVALID[0]),
        ("good", rules.get("QP102").VALID[0]),
        ("doubtful", rules.get("QL302").INVALID[0]),
    ):
        onnx.save(example.model(), f"{name}.onnx")


@pytest.mark.parametrize(
    ("fail_on", "model", "code", "counts"),
    [
        ("error", "bad.onnx", 1, "1 error, 0 warnings"),
        ("never", "bad.onnx", 0, "1 error, 0 warnings"),
        ("error", "doubtful.onnx", 0, "0 errors, 1 warning"),
        ("warning", "doubtful.onnx", 1, "0 errors, 1 warning"),
    ],
)
def test_fail_on_is_inclusive_and_hides_nothing(fail_on: str, model: str, code: int, counts: str):
    done = qdqtool("validate", model, "--fail-on", fail_on)
    assert (done.code, done.err) == (code, "")
    assert f"1 model, {counts}, " in done.out


@pytest.mark.parametrize(("model", "is_named"), [("bad.onnx", True), ("good.onnx", False)])
def test_a_settings_file_that_lets_errors_pass_is_named(model: str, is_named: bool, tmp_path: Path):
    (tmp_path / "qdqtool.toml").write_text('fail-on = "never"')
    done = qdqtool("validate", model)
    assert (done.code, "in spite of errors: fail-on is 'never' in" in done.err) == (0, is_named)
    (tmp_path / "qdqtool.toml").write_text('[severity]\nQ = "info"')
    done = qdqtool("validate", model)
    assert (done.code, ": pass (1 errors lowered by the settings)" in done.out) == (0, is_named)
    assert (f"settings: {tmp_path}" in " ".join(done.out.split())) is is_named


def test_many_models_and_targets_with_one_unreadable():
    done = qdqtool("validate", "bad.onnx", "none.onnx", "good.onnx", "--target", "tensorrt,ort-cpu", "--target=onnx")
    assert done.code == 3
    assert "bad.onnx for tensorrt: fail\n" in done.out
    assert "bad.onnx for ort-cpu, onnx: fail\n" in done.out, "targets with the same findings are told together"
    assert "good.onnx for tensorrt, ort-cpu, onnx: pass\n" in done.out
    assert "none.onnx: unreadable" in done.out
    assert "3 models for 3 targets, 3 errors, 0 warnings, 0 infos, 1 unreadable" in done.out
    assert "no such file" in done.out
    assert done.err == "", "said once"


def test_what_cannot_be_read_is_told_beside_a_machine_readable_report():
    done = qdqtool("validate", "bad.onnx", "none.onnx", "--output-format", "json")
    assert (done.code, done.err) == (3, "error: none.onnx: no such file\n")


def test_json_is_alone_on_stdout():
    done = qdqtool("validate", "bad.onnx", "--output-format", "json", "--target", "tensorrt,onnx")
    document = json.loads(done.out)
    assert done.code == 1
    assert [target["target"] for target in document["models"][0]["targets"]] == ["tensorrt", "onnx"]


def test_select_and_ignore_take_prefixes_with_commas():
    unselected, ignored, found = (
        qdqtool("validate", "bad.onnx", *words)
        for words in (("--select", "QS,QA"), ("--ignore", "QP1,QA"), ("--select", "ALL", "--ignore", "QS"))
    )
    assert (unselected.code, ignored.code, found.code) == (0, 0, 1)
    assert "QP101" not in unselected.out
    assert "bad.onnx for tensorrt: pass (1 ignored: QP101)\n" in ignored.out
    assert "error QP101" in found.out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "Missing argument 'MODEL...'"),
        (["good.onnx", "--target", "tensort"], "did you mean 'tensorrt'"),
        (["good.onnx", "--select", "XX"], "neither ALL nor the beginning of a rule code"),
        (["good.onnx", "--fail-on", "info"], "Invalid value"),
        (["good.onnx", "--parser"], "--target tensorrt-rtx"),
    ],
)
def test_wrong_usage(words: list[str], said: str):
    done = qdqtool("validate", *words)
    assert (done.code, done.out) == (2, "")
    assert said in done.err


HOSTILE = "\x1b[31m[bold]n\nm\u202e\u0000[/bold]"


@pytest.mark.parametrize("output_format", ["text", "json"])
def test_hostile_names_do_not_reach_the_terminal(output_format: str):
    model = rules.get("QP101").INVALID[0].model()
    for node in model.graph.node:
        node.name = f"{HOSTILE}{node.output[0]}"
    for tensor in model.graph.initializer:
        if tensor.name == "ws":
            tensor.name = HOSTILE
    model.graph.node[2].input[1] = HOSTILE
    onnx.save(model, "hostile.onnx")
    done = qdqtool("validate", "hostile.onnx", "--output-format", output_format)

    assert done.code == 1
    assert not {"\x1b", "\u0000"} & set(done.out)
    if output_format == "json":
        assert json.loads(done.out)["models"][0]["targets"][0]["findings"][0]["tensor"] == HOSTILE
    else:
        assert "\u202e" not in done.out
        assert "[bold]n\\nm\\u202e\\x00[/bold]" in done.out


def test_rules_lists_every_rule():
    done = qdqtool("rules")
    document = json.loads(qdqtool("rules", "--output-format", "json").out)
    assert done.code == 0
    assert all(rule.code in done.out for rule in rules.catalogue())
    assert [card["code"] for card in document["rules"]] == [rule.code for rule in rules.catalogue()]


def test_the_gpus_that_lack_a_type_are_named():
    onnx.save(rules.get("QT401").INVALID[0].model(), "fp8.onnx")
    words = ("validate", "fp8.onnx", "--select", "QT401")
    named, unnamed, wrong = (qdqtool(*words, *more) for more in (("--sm", "8.6,89"), (), ("--sm", "ampere")))
    assert (named.code, unnamed.code, wrong.code) == (1, 0, 2)
    assert "compute capability 8.6 has no type float8e4m3fn" in named.out
    assert "8.9 has" not in named.out
    assert "'ampere' is not a compute capability" in wrong.err


@pytest.mark.builder
def test_the_report_says_whether_the_parser_was_asked():
    pytest.importorskip("tensorrt_rtx")
    words = ("validate", "good.onnx", "--target", "tensorrt-rtx", "--output-format", "json")
    asked, off = (json.loads(qdqtool(*words, *more).out)["models"][0]["targets"][0] for more in ((), ("--no-parser",)))
    assert (asked["parser"], asked["parser_messages"]) == ("asked", [])
    assert asked["parser_note"].startswith("TensorRT for RTX 1.")
    assert off["parser"] == "off"
