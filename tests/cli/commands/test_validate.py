"""``validate``, ``rules`` and ``explain`` on the command line."""

import json
from pathlib import Path

import onnx
import pytest
from support.command import qdqtool

from qdqtool.linting import rules


@pytest.fixture
def bad(tmp_path: Path) -> Path:
    path = tmp_path / "bad.onnx"
    onnx.save(rules.get("QP101").INVALID[0].model(), path)
    return path


@pytest.fixture
def good(tmp_path: Path) -> Path:
    path = tmp_path / "good.onnx"
    onnx.save(rules.get("QP102").VALID[0].model(), path)
    return path


@pytest.fixture
def doubtful(tmp_path: Path) -> Path:
    path = tmp_path / "doubtful.onnx"
    onnx.save(rules.get("QL302").INVALID[0].model(), path)
    return path


def test_a_clean_model_passes(good: Path):
    done = qdqtool("validate", good)

    assert done.code == 0
    assert "for tensorrt: pass" in done.out
    assert done.out.splitlines()[-1] == "1 model, 0 errors, 0 warnings, 0 infos"
    assert not done.err


def test_a_finding_names_everything_and_the_fix(bad: Path):
    done = qdqtool("validate", bad)

    assert done.code == 1
    assert (
        "error QP101 [refused] DequantizeLinear -> wd: scale 'ws' of this DQ is 0 in channel 1; "
        "expected finite and greater than 0" in done.out
    )
    assert "fix: give the channel any positive finite scale" in done.out


@pytest.mark.parametrize(
    ("fail_on", "model", "code", "counts"),
    [
        ("error", "bad", 1, "1 error, 0 warnings"),
        ("never", "bad", 0, "1 error, 0 warnings"),
        ("error", "doubtful", 0, "0 errors, 1 warning"),
        ("warning", "doubtful", 1, "0 errors, 1 warning"),
    ],
)
def test_fail_on_is_inclusive_and_hides_nothing(
    fail_on: str, model: str, code: int, counts: str, request: pytest.FixtureRequest
):
    done = qdqtool("validate", request.getfixturevalue(model), "--fail-on", fail_on)

    assert (done.code, done.err) == (code, "")
    assert f"1 model, {counts}, " in done.out


def test_many_models_and_targets_with_one_unreadable(bad: Path, good: Path, tmp_path: Path):
    done = qdqtool("validate", bad, tmp_path / "none.onnx", good, "--target", "tensorrt,ort-cpu", "--target=onnx")

    assert done.code == 3
    assert f"{bad} for tensorrt: fail\n" in done.out
    assert f"{bad} for ort-cpu, onnx: fail\n" in done.out, "targets with the same findings are told together"
    assert f"{good} for tensorrt, ort-cpu, onnx: pass\n" in done.out
    assert "none.onnx: unreadable" in done.out
    assert "3 models, 3 errors, 0 warnings, 0 infos, 1 unreadable" in done.out
    assert "no such file" in done.out
    assert done.err == "", "said once"


def test_what_cannot_be_read_is_told_beside_a_machine_readable_report(bad: Path, tmp_path: Path):
    done = qdqtool("validate", bad, tmp_path / "none.onnx", "--output-format", "json")

    assert done.code == 3
    assert done.err == f"error: {tmp_path}/none.onnx: no such file\n"


def test_help_has_every_option_under_a_heading():
    text = qdqtool("validate", "--help").out
    headings = [line for line in text.splitlines() if line.endswith(":") and not line.startswith(" ")]

    assert "Other:" not in text
    assert "-h, --help" in text[text.index("Report:") : text.index("Fixes:")]
    assert headings[1:6] == ["What to judge:", "What counts:", "Report:", "Fixes:", "Run:"]
    assert "Examples:\n  qdqtool validate model.onnx\n" in text


def test_the_end_tells_what_can_be_fixed(bad: Path, good: Path):
    assert qdqtool("validate", bad).out.splitlines()[-1].startswith("1 can be fixed, ")
    assert "can be fixed" not in qdqtool("validate", good, "--select", "QP101").out


def test_json_is_alone_on_stdout(bad: Path):
    done = qdqtool("validate", bad, "--output-format", "json", "--target", "tensorrt,onnx")
    document = json.loads(done.out)

    assert done.code == 1
    assert [target["target"] for target in document["models"][0]["targets"]] == ["tensorrt", "onnx"]


def test_select_and_ignore_take_prefixes_with_commas(bad: Path):
    unselected, ignored, found = (
        qdqtool("validate", bad, *words)
        for words in (("--select", "QS,QA"), ("--ignore", "QP1,QA"), ("--select", "ALL", "--ignore", "QS"))
    )

    assert (unselected.code, ignored.code, found.code) == (0, 0, 1)
    assert "QP101" not in unselected.out
    assert f"{bad} for tensorrt: pass (1 ignored: QP101)\n" in ignored.out
    assert "error QP101" in found.out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--target", "tensort"], "did you mean 'tensorrt'"),
        (["--select", "XX"], "neither ALL nor the beginning of a rule code"),
        (["--fail-on", "info"], "Invalid value"),
    ],
)
def test_wrong_usage(words: list[str], said: str, good: Path):
    done = qdqtool("validate", good, *words)

    assert done.code == 2
    assert said in done.err


def test_no_model_is_wrong_usage():
    done = qdqtool("validate")

    assert (done.code, done.out) == (2, "")
    assert "Missing argument 'MODEL...'" in done.err


def test_long_lists_are_cut_and_counted(tmp_path: Path):
    nodes = " ".join(f"q{i} = QuantizeLinear (x, s, z)" for i in range(25))
    text = f"agraph (float[1,4] x) => (float[1,4] y) <float s = {{-1}}, int8 z = {{0}}> {{ {nodes} y = Relu (x) }}"
    path = tmp_path / "many.onnx"
    onnx.save(rules.Example("", text).model(), path)
    done = qdqtool("validate", path, "--select", "QP101")

    assert done.out.count("error QP101") == 10
    assert "and 15 more of QP101" in done.out


HOSTILE = "\x1b[31m[bold]n\nm\u202e\u0000[/bold]"


@pytest.mark.parametrize("output_format", ["text", "json"])
def test_hostile_names_do_not_reach_the_terminal(output_format: str, tmp_path: Path):
    model = rules.get("QP101").INVALID[0].model()
    for node in model.graph.node:
        node.name = f"{HOSTILE}{node.output[0]}"
    for tensor in model.graph.initializer:
        if tensor.name == "ws":
            tensor.name = HOSTILE
    model.graph.node[2].input[1] = HOSTILE
    path = tmp_path / "hostile.onnx"
    onnx.save(model, path)
    done = qdqtool("validate", path, "--output-format", output_format)

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


@pytest.mark.parametrize("spelling", ["QP101", "qp101", "parameters.scale-value"])
def test_explain(spelling: str):
    done = qdqtool("explain", spelling)

    assert done.code == 0
    for part in ("QP101 parameters.scale-value", "Why: ", "Bad: ", "Good: ", "Fix: ", "reported: ", "passed: "):
        assert part in done.out


def test_explain_as_json():
    document = json.loads(qdqtool("explain", "QP101", "--output-format", "json").out)

    assert document["code"] == "QP101"
    assert document["invalid"][0]["text"].startswith("agraph (float[1,2] x)")


def test_explain_an_unknown_rule():
    done = qdqtool("explain", "QP1O1")

    assert done.code == 2
    assert "did you mean" in done.err


def test_the_gpus_that_lack_a_type_are_named(tmp_path: Path):
    onnx.save(rules.get("QT401").INVALID[0].model(), tmp_path / "fp8.onnx")
    named = qdqtool("validate", tmp_path / "fp8.onnx", "--sm", "8.6,89", "--select", "QT401")
    unnamed = qdqtool("validate", tmp_path / "fp8.onnx", "--select", "QT401")
    wrong = qdqtool("validate", tmp_path / "fp8.onnx", "--sm", "ampere")

    assert named.code == 1
    assert "compute capability 8.6 has no float8e4m3fn" in named.out
    assert "8.9 has" not in named.out
    assert unnamed.code == 0
    assert wrong.code == 2
    assert "'ampere' is no compute capability" in wrong.err


def test_the_parser_is_demanded_for_its_own_target_only(good: Path):
    done = qdqtool("validate", good, "--parser")

    assert done.code == 2
    assert "--target tensorrt-rtx" in done.err


@pytest.mark.builder
def test_the_report_says_whether_the_parser_was_asked(good: Path):
    pytest.importorskip("tensorrt_rtx")
    words = ("validate", good, "--target", "tensorrt-rtx", "--output-format", "json")
    asked, off = (json.loads(qdqtool(*words, *more).out)["models"][0]["targets"][0] for more in ((), ("--no-parser",)))

    assert (asked["parser"], asked["parser_messages"]) == ("asked", [])
    assert asked["parser_note"].startswith("TensorRT for RTX 1.")
    assert off["parser"] == "off"
