"""The verdict: what fails, what a user should know before deployment, and what good models are not blamed for."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from support.command import qdqtool
from support.saved_reports import BUILD, CHECK, LIMITED, QUANTIZE, REFUSED, VALIDATE, edited, save

from qdqtool.jobs.verdict import judge, reasons_of, word_of
from qdqtool.reports.saved.reading import read_reports
from qdqtool.results import Judgement

RANDOM = "the scales are those of random data"
UNMEASURED = "the accuracy was not measured"
Edit = Callable[[Any], object]
GOOD = {"quantize": QUANTIZE, "validate": VALIDATE, "check": LIMITED, "build": BUILD}


def judged(folder: Path, **documents: Any) -> tuple[Judgement, ...]:
    return judge([(each.source, each.content) for each in read_reports(save(folder, **documents))])


def sqnr(value: float) -> Edit:
    return lambda it: it["outputs"][0].update(sqnr_db=value, exact=False)


def target(**values: Any) -> Edit:
    return lambda it: it["models"][0]["targets"][0].update(values)


def test_a_good_check_tells_the_samples_without_copies(tmp_path: Path):
    for repeated, told in ((0, "64 samples"), (63, "1 sample")):
        data = {**LIMITED["data"], "samples": 64, "repeated": repeated}
        (found,) = judged(tmp_path, check={**LIMITED, "data": data})
        assert f" held on {told}, against " in found.detail


LOST = {"label": 4, "predictions": 12, "value": 0.0, "baseline": 100.0, "is_lost": True}
METRIC = {
    "name": "top-1",
    "output": "y",
    "unit": "%",
    "loss_unit": "points",
    "predictions": 120,
    "value": 91.0,
    "baseline": 95.0,
    "loss": 4.0,
    "saved": None,
    "saved_loss": None,
    "chance": None,
    "baseline_chance": None,
}


def recall(*classes: dict[str, Any]) -> Edit:
    return lambda it: it.update(metric={**METRIC, "distinct_predictions": 120, "classes": classes})


def test_one_class_that_lost_recall_is_named_alone(tmp_path: Path):
    (reason,) = reasons_of(judged(tmp_path, **GOOD | {"check": edited(LIMITED, recall(LOST))}))
    assert (reason.state, reason.detail) == ("warning", "the recall of class 4 fell from 100 % to 0 %")


def test_a_class_that_lost_no_more_than_chance_explains_is_no_reason(tmp_path: Path):
    found = judged(tmp_path, **GOOD | {"check": edited(LIMITED, recall({**LOST, "value": 90.0, "is_lost": False}))})
    assert reasons_of(found) == ()


def idle(reason: str) -> Edit:
    return lambda it: it.update(not_observed=[{"node": "q", "graph": "", "tensor": "x", "reason": reason}])


def test_good_reports_pass(tmp_path: Path):
    found = judged(tmp_path, **GOOD)
    assert (word_of(found), reasons_of(found)) == ("passed", ())


@pytest.mark.parametrize(
    ("name", "edit", "detail"),
    [
        ("check", lambda it: it.update(passed=False, failures=["min-sqnr: 3 dB"]), "min-sqnr: 3 dB"),
        ("check", lambda it: it.update(passed=False, failures=["a", "b", "c"]), "a (and 2 more)"),
        ("check", lambda it: it["gates"][0].update(passed=False), "missed: "),
        ("validate", target(verdict="fail"), "tensorrt: 0 errors of"),
        ("validate", lambda it: it["models"][0].update(error="damaged", targets=[]), "could not be read: damaged"),
        ("build", lambda it: it["gates"][0].update(passed=False), "int8"),
        ("quantize", lambda it: it["accuracy"]["outputs"][0].update(finite=False), "NaN or infinities in"),
    ],
)
def test_what_fails(name: str, edit: Edit, detail: str, tmp_path: Path):
    found = judged(tmp_path, **GOOD | {name: edited(GOOD[name], edit)})
    assert word_of(found) == "failed"
    assert reasons_of(found)[0].state == "failed"
    assert detail in reasons_of(found)[0].detail


def test_quantizing_is_judged_by_its_own_outputs_where_no_check_follows(tmp_path: Path):
    low = edited(QUANTIZE, lambda it: it["accuracy"]["outputs"][0].update(sqnr_db=19.9))
    for document, reasons in (
        ({"quantize": low}, ["output 'y' keeps 19.9 dB, and no accuracy was asked for"]),
        ({"quantize": low, "check": LIMITED}, []),
        ({"quantize": low | {"has_accuracy_target": True}}, []),
        ({"quantize": edited(low, lambda it: it["calibration"].update(random=True))}, [RANDOM]),
        ({"quantize": edited(low, lambda it: it.update(accuracy=None))}, [f"{UNMEASURED}: there is no data"]),
        (
            {"quantize": edited(low, lambda it: it["accuracy"].update(problem="too few", outputs=[]))},
            [f"{UNMEASURED}: too few"],
        ),
        ({"quantize": low | {"accuracy": None}, "check": LIMITED}, []),
        ({"quantize": edited(low, lambda it: it["accuracy"]["outputs"][0].update(sqnr_db=20.0))}, []),
    ):
        assert [each.detail for each in reasons_of(judged(tmp_path, **document))] == reasons


def test_what_an_earlier_quantization_made_smaller_need_not_shrink_again(tmp_path: Path):
    kept = edited(QUANTIZE, lambda it: it.update(existing="keep", sizes={"before": 1000, "after": 1000}))
    assert reasons_of(judged(tmp_path, **GOOD | {"quantize": kept})) == ()


def test_a_refusing_builder_fails(tmp_path: Path):
    (reason,) = reasons_of(judged(tmp_path, **GOOD | {"build": REFUSED}))
    assert reason == Judgement(
        "engine", "failed", "refused in stage 'parse': the parser refused it", source=reason.source
    )


@pytest.mark.parametrize(
    ("name", "document", "edit", "detail"),
    [
        ("check", CHECK, sqnr(19.9), "keeps 19.9 dB, and no limit on the accuracy was given"),
        ("check", LIMITED, lambda it: it["data"].update(seed=0), "random inputs"),
        ("check", LIMITED, lambda it: it.update(baseline=None), "no output was compared with a float model"),
        ("check", LIMITED, lambda it: it["qdq"].update(total=0), "the model has no Q/DQ nodes"),
        ("check", LIMITED, lambda it: it.update(baseline_qdq=2), "the baseline has 2 Q/DQ nodes itself"),
        ("check", LIMITED, lambda it: it.update(empty_limits=["--min-cosine -1"]), "--min-cosine -1 limits nothing"),
        ("check", LIMITED, recall(LOST, LOST), "the recall of class 4 fell from 100 % to 0 % (and of 1 more)"),
        ("check", LIMITED, idle("it did not run on this data"), "no sample ran 1 Q/DQ node, such as 'q'"),
        ("validate", VALIDATE, target(not_selected=79), "tensorrt: only 2 of 81 rules were selected"),
        ("validate", VALIDATE, target(lowered=2), "tensorrt: 2 errors ignored or lowered by options or settings"),
        ("validate", VALIDATE, target(ignored=[{"code": "QP101", "count": 3, "errors": 1}]), "1 error ignored"),
        ("validate", edited(VALIDATE, target(lowered=1)), lambda it: it.update(settings="a.toml"), "options or a.toml"),
        ("validate", VALIDATE, target(target="onnx"), "validated for onnx, and built by tensorrt-rtx"),
        ("build", BUILD, lambda it: it.update(evidence="none"), "does not show the actual precision"),
        ("build", BUILD, lambda it: it.update(planned={"int8": 3}, achieved={"int8": 1}), "1 of 3 planned nodes"),
        ("build", BUILD, lambda it: it.update(lost_nodes=8), "the model has lost the Q/DQ of 8 nodes since quantize"),
        ("build", BUILD, lambda it: it.update(planned={}, achieved={}), "0 of 0 planned nodes"),
        ("quantize", QUANTIZE, lambda it: it.update(quantized_share=0.09), "9% of the multiply-accumulates"),
        ("quantize", QUANTIZE, lambda it: it.update(sizes={"before": 238_000, "after": 237_900}), "hardly smaller"),
        ("quantize", QUANTIZE, lambda it: it.update(existing="replace"), "MODEL without its Q/DQ nodes"),
    ],
)
def test_what_a_user_should_know(name: str, document: Any, edit: Edit, detail: str, tmp_path: Path):
    found = judged(tmp_path, **GOOD | {name: edited(document, edit)})
    assert word_of(found) == "warning"
    assert [detail in each.detail for each in reasons_of(found)] == [True]


@pytest.mark.parametrize(
    ("name", "document", "edit"),
    [
        ("check", CHECK, sqnr(20.0)),
        ("check", LIMITED, sqnr(1.0)),
        ("build", BUILD, lambda it: it.update(planned={"int8": 4}, achieved={"int8": 2})),
        ("quantize", QUANTIZE, lambda it: it.update(quantized_share=0.1, existing="keep")),
        ("quantize", QUANTIZE, lambda it: it.update(sizes={"before": 1000, "after": 940})),
        ("quantize", QUANTIZE, lambda it: it.update(weights="qdq", sizes={"before": 1000, "after": 1100})),
        ("validate", VALIDATE, target(parser="absent")),
        ("validate", VALIDATE, target(ignored=[{"code": "QA101", "count": 3, "errors": 0}])),
        ("validate", VALIDATE, lambda it: it.update(settings="a.toml")),
        ("check", LIMITED, idle("not compared: the baseline has no tensor of that name or place")),
    ],
)
def test_what_is_no_reason_for_a_warning(name: str, document: Any, edit: Edit, tmp_path: Path):
    assert word_of(judged(tmp_path, **GOOD | {name: edited(document, edit)})) == "passed"


def work(kind: str, percent: int, converted_to: str | None = None) -> dict[str, Any]:
    """The work of a model with a part of another type than int8, or of an int8 node that fell back to float32."""
    in_float32 = {"fc": 2 * percent // 3, "conv": percent - 2 * percent // 3} if kind != "float16" else {}
    return {"by_type": {"int8": 100 - percent, kind: percent}, "float32": in_float32, "converted_to": converted_to}


@pytest.mark.parametrize("kind", ["float32", "int4-weight-only"])
def test_a_float32_rest_is_a_reason_where_the_target_has_half_precision(kind: str, tmp_path: Path):
    rest = QUANTIZE | {"work": work(kind, 6)}
    (reason,) = reasons_of(judged(tmp_path, **GOOD | {"quantize": rest}))
    detail = "6.0% of the multiply-accumulates run in float32, such as those of 'fc': an engine in half precision"
    assert (reason.state, reason.detail) == ("warning", f"{detail} may be faster")
    assert reason.hint.startswith("`--high-precision-dtype fp16`")
    for other in (
        QUANTIZE | {"work": work(kind, 5)},
        QUANTIZE | {"work": work("float16", 60)},
        rest | {"target": "onnx"},
        rest | {"target": "ort-cpu"},
    ):
        assert reasons_of(judged(tmp_path, quantize=other, check=LIMITED)) == ()


def test_the_float32_rest_of_a_finished_model_is_cast(tmp_path: Path):
    (reason,) = reasons_of(judged(tmp_path, build=BUILD | {"work": work("float32", 6)}))
    assert reason.hint.startswith("`qdqtool cast net.int8.onnx --to fp16 -o OUT.onnx`")
    shapes = {"quantize": QUANTIZE | {"work": work("float32", 60)}, "build": BUILD | {"work": work("float32", 4)}}
    assert reasons_of(judged(tmp_path, **GOOD | shapes)) == ()


def test_a_node_that_could_not_be_half_says_its_reason(tmp_path: Path):
    node = {"node": "conv", "op_type": "Conv", "graph": "", "reason": "'x' reaches 1e+06"}
    half = {"dtype": "fp16", "nodes": 3, "kept": [node], "casts": 1, "measured": 1, "note": ""}
    rest = QUANTIZE | {"work": work("float32", 6, "fp16"), "high_precision": half}
    (reason,) = reasons_of(judged(tmp_path, **GOOD | {"quantize": rest}))
    assert reason.detail.endswith("such as those of 'conv', which could not be converted to fp16: 'x' reaches 1e+06")
    assert reason.hint == ""
    (reason,) = reasons_of(judged(tmp_path, build=BUILD | {"work": work("float32", 6, "fp16")}))
    assert reason.detail.endswith("such as those of 'fc', which could not be converted to fp16")


def test_an_accuracy_target_of_quantize_is_a_limit(tmp_path: Path):
    low = edited(CHECK, sqnr(15.0))
    asked = QUANTIZE | {"has_accuracy_target": True}
    assert word_of(judged(tmp_path, quantize=QUANTIZE, check=low)) == "warning"
    assert word_of(judged(tmp_path, quantize=asked, check=low)) == "passed"


def test_neither_parser_nor_builder_was_asked(tmp_path: Path):
    absent = edited(VALIDATE, target(parser="absent", parser_note="tensorrt_rtx is not installed"))
    (reason,) = reasons_of(judged(tmp_path, validate=absent, check=LIMITED))
    assert "neither the parser nor the builder was asked (tensorrt_rtx is not installed)" in reason.detail


def test_strict_makes_a_warning_exit_code_1(tmp_path: Path):
    nodes = [
        onnx.helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        onnx.helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"]),
    ]
    tensors = [onnx.numpy_helper.from_array(np.float32(0.1), "s"), onnx.numpy_helper.from_array(np.int8(0), "z")]
    values = [onnx.helper.make_tensor_value_info(name, 1, [4]) for name in "xy"]
    graph = onnx.helper.make_graph(nodes, "g", values[:1], values[1:], tensors)
    onnx.save(
        onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 21)], ir_version=10),
        tmp_path / "m.onnx",
    )
    done = [qdqtool("check", "m.onnx", *strict, cwd=tmp_path) for strict in ((), ("--strict",))]
    assert [each.code for each in done] == [0, 1]
    assert "WARNING   4 gates held" in done[0].out


def test_strict_quantize_ends_with_1_for_a_model_that_does_not_shrink(tmp_path: Path):
    codes = {}
    for width in (4, 256):
        weight = np.random.default_rng(0).normal(size=(width, width)).astype(np.float32)
        node = onnx.helper.make_node("MatMul", ["x", "w"], ["y"])
        values = [onnx.helper.make_tensor_value_info(name, 1, [1, width]) for name in "xy"]
        graph = onnx.helper.make_graph([node], "g", values[:1], values[1:], [onnx.numpy_helper.from_array(weight, "w")])
        opset = onnx.helper.make_opsetid("", 21)
        onnx.save(onnx.helper.make_model(graph, opset_imports=[opset], ir_version=10), tmp_path / "m.onnx")
        np.savez(tmp_path / "d.npz", x=np.random.default_rng(1).normal(size=(8, width)).astype(np.float32))
        words = ("quantize", "m.onnx", "--calib-data", "d.npz", "-o", "out.onnx")
        codes[width] = [qdqtool(*words, *strict, cwd=tmp_path).code for strict in ((), ("--strict",))]
    assert codes == {4: [0, 1], 256: [0, 0]}
