"""What the terminal says of a quantized model, its accuracy and how an accuracy goal was reached."""

from dataclasses import replace

import pytest
from support.accuracy_parts import BLAMED
from support.printed import ESCAPED, HOSTILE, printed

from qdqtool.accuracy.report import Accuracy, BlameReport, OutputAccuracy
from qdqtool.accuracy.search.goal_report import FloatLayer, GoalReport
from qdqtool.jobs.quantize_report import QuantizeReport
from qdqtool.linting.findings import Finding
from qdqtool.models.graph.report import NodeReason, OutlineNode, Sizes
from qdqtool.quantization.calibration_report import CalibrationUsed, MethodTrial
from qdqtool.quantization.report import DegenerateTensor, QuantizedTensor, TensorAccuracy
from qdqtool.reports.text.quantize import SHOWN_OUTPUTS, SHOWN_STATES, print_accuracy, print_goal, render
from qdqtool.results import Judgement
from qdqtool.samples.split import TOO_FEW

USED = CalibrationUsed(source="images", method="entropy", samples=4, random=False, seed=None)
VERDICT = "validate for tensorrt: pass (0 warnings, 0 infos)"
CALIBRATED = "calibrated with entropy over 4 samples of images"
ZEROS = DegenerateTensor(
    tensor="t", graph="", kind="activation", condition="zeros", scales=1, of=1, scale=1.0, action="scale is 1"
)
WARNING = Finding(code="QP302", name="n", severity="warning", effect="advice", message="slow", node="q")
REPORT = QuantizeReport(
    model="m.onnx",
    output="q.onnx",
    external_data=None,
    mode="int8",
    target="tensorrt",
    opset_before=17,
    opset_after=17,
    calibration=None,
    preparation=(),
    corrected=(),
    separated=(),
    quantized=(),
    skipped=(),
    degenerate=(),
    high_precision=None,
    findings=(),
    accuracy=None,
    ranges_file=None,
    plan_file=None,
    codes_not_in_plan=0,
    sizes=Sizes(before=100, after=50),
)


def lines(**changes: object) -> list[str]:
    return printed(render, replace(REPORT, **changes)).splitlines()


def test_samples_that_only_measured_are_told_from_those_that_chose():
    used = replace(USED, method="gptq", held_back=1, repeated=2)
    assert lines(calibration=used)[:3] == [
        "codes of weights chosen (gptq) over 4 samples of images",
        "1 sample of images held out, only to measure",
        "REPEATED 2 of 5 samples equal an earlier sample: 3 are different",
    ]


def test_the_plainest_run_has_counts_verdict_and_file():
    assert lines() == [
        "0 quantized tensors in m.onnx",
        "size 100 bytes -> 50 bytes (50%)",
        "wrote q.onnx",
        "accuracy not measured: there is no data (--calib-data)",
        "",
        VERDICT,
        "PASSED",
    ]


def test_operators_without_a_form_are_counted_where_activations_are_quantized():
    nodes = tuple(
        OutlineNode(name=name, op_type=kind, inputs=(-1,), formats=(form,), weights="")
        for name, kind, form in (("c", "Conv", "int8"), ("r", "Relu", ""), ("s", "Relu", ""), ("g", "Gemm", ""))
    )
    skipped = (NodeReason(node="g", op_type="Gemm", graph="", reason="too small"),)
    x = QuantizedTensor(
        tensor="x",
        graph="",
        kind="activation",
        format="int8",
        granularity="per-tensor",
        scales=1,
        scale_min=0.1,
        scale_max=0.1,
        consumers=("c",),
        reason="input of Conv",
    )
    line = "operators without a Q/DQ form: 2 Relu; the target fuses them or computes them in float"
    assert line in lines(nodes=nodes, skipped=skipped, quantized=(x,))
    assert line not in lines(nodes=nodes, skipped=skipped, quantized=(replace(x, kind="weight"),))


def test_the_method_that_auto_chose_is_named_behind_the_calibration():
    trial = MethodTrial(method="max", samples=4, gains_db={"max": 1.0}, errors_db={"max": 0.26})
    chosen = replace(USED, method="auto", chosen="max")
    fresh, cached = (lines(calibration=used) for used in (replace(chosen, method_trial=trial), chosen))
    assert fresh[fresh.index("calibrated with auto over 4 samples of images") + 1].startswith(
        "scales by max: outputs keep 1.0 ± 0.3 dB more than with a method for each tensor (4 samples)"
    )
    assert "scales by max, as the ranges file says" in cached


LOST = TensorAccuracy(tensor="t", graph="", kind="weight", sqnr_db=8.04)


def test_the_layers_that_make_the_noise_stand_in_front_of_the_verdict_and_else_the_pairs():
    accuracy = Accuracy(samples=4, worst=(LOST,))
    blame = BlameReport(output="y", whole_db=20.0, samples=1, runs=9, layers=(BLAMED,), rest_share=0.2)
    layers, pairs = (
        "layers that make most of the noise at y, on 1 sample",
        "largest errors of pairs on their own tensors",
    )

    found = lines(accuracy=accuracy, blame=blame)
    assert found[-7] == layers
    assert found[-2:] == [VERDICT, "PASSED"]
    assert not any(line.startswith(pairs) for line in found)
    clips = "the method 'percentile' clips values: `--calibration-method max` clips none"
    assert clips not in found
    assert clips in lines(accuracy=accuracy, blame=blame, calibration=replace(USED, method="percentile"))
    for unknown in (None, replace(blame, layers=())):
        found = lines(accuracy=accuracy, blame=unknown)
        assert found[-6].startswith(pairs)
        assert found[-4].split() == ["t", "weight", "39.63%", "8.0"]
        assert layers not in found
    verbose = printed(render, replace(REPORT, accuracy=accuracy, blame=blame), verbose=True)
    assert layers in verbose
    assert pairs in verbose


def test_the_origin_of_the_ranges_is_named():
    assert lines(calibration=USED)[0] == CALIBRATED
    assert (
        lines(calibration=replace(USED, method="gptq"))[0] == "codes of weights chosen (gptq) over 4 samples of images"
    )


def test_random_and_forced_ranges_are_marked():
    text = lines(calibration=replace(USED, random=True, seed=7, forced_for=("model",)))
    assert text[1:4] == [
        "RANDOM calibration, seed 7: it says nothing about real inputs",
        "FORCED: the ranges come from another model",
        "",
    ]


def test_corrected_and_separated_products_are_counted():
    assert lines(corrected=("a", "b"), separated=("c",))[:3] == [
        "biases corrected behind 2 weights",
        "1 product for queries, keys and values split into three products each, to run quantized",
        "",
    ]


def test_tensors_that_no_scale_serves_are_noted():
    channels = replace(ZEROS, kind="weight", graph="then", condition="tiny", scales=1, of=2)
    assert lines(degenerate=(ZEROS, channels))[:3] == [
        "note     activation t: holds nothing but zeros; scale is 1",
        "note     weight t in then: 1 of 2 channels holds only tiny values; scale is 1",
        "",
    ]


def test_warnings_are_listed_and_infos_only_counted():
    text = lines(findings=(WARNING, replace(WARNING, node=None), replace(WARNING, severity="info", message="note")))
    assert text[-4:] == [
        "validate for tensorrt: pass (2 warnings, 1 info)",
        "  QP302 q: slow",
        "  QP302 slow",
        "PASSED",
    ]


def test_other_files_are_named_and_what_a_plan_lacks():
    assert lines(ranges_file="r.json", plan_file="p.json", codes_not_in_plan=1)[3:6] == [
        "ranges in r.json",
        "plan in p.json",
        "the plan has the scales of 1 weight, but not the codes chosen with data",
    ]


def test_the_source_of_the_data_is_escaped():
    assert lines(calibration=replace(USED, source=HOSTILE))[0].endswith(f"over 4 samples of {ESCAPED}")


def test_an_error_of_the_output_is_no_pass_and_comes_first():
    error = Finding(code="QN504", name="n", severity="error", effect="silent", message="nothing fills it", node="a")

    shown = lines(findings=(WARNING, error))

    first = shown.index("validate for tensorrt: fail (1 error, 1 warning, 0 infos)")
    assert shown[first + 1 : first + 3] == ["  QN504 a: nothing fills it", "  QP302 q: slow"]


def text_of(*outputs: OutputAccuracy, **changes: object) -> str:
    return printed(print_accuracy, Accuracy(samples=4, outputs=outputs, **{"held_back": True, **changes}))


def output(
    sqnr_db: float | None = 31.25, *, exact: bool = False, finite: bool = True, **changes: object
) -> OutputAccuracy:
    return OutputAccuracy(name="y", sqnr_db=sqnr_db, exact=exact, finite=finite, **changes)


def test_a_problem_is_said_and_escaped():
    assert printed(print_accuracy, Accuracy(samples=0, problem=HOSTILE)) == f"accuracy NOT measured: {ESCAPED}\n"


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (output(), "31.2 dB"),
        (output(-0.5), "-0.5 dB, LOST: the error is larger than the output itself"),
        (output(None, exact=True), "equal"),
        (output(None, finite=False), "NaN or infinity where the float model has none"),
        (output(None), "the float output is zero everywhere, but this output is not"),
        (output(None, other_shapes=1), "not compared; the shape differs from the float model's in 1 sample"),
        (output(float_nonfinite=2), "31.2 dB; NaN or infinite in the float model: 2 elements"),
    ],
)
def test_an_output_has_one_line(found: OutputAccuracy, words: str):
    head, line = text_of(found).splitlines()
    assert head == "SQNR against the float model, on 4 hold-out samples of the calibration data"
    assert line == f"  output     y: {words}"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"validation": HOSTILE}, f"4 samples of {ESCAPED}"),
        ({"reason": TOO_FEW}, "4 calibration samples: too few to hold any out"),
        ({"reason": TOO_FEW, "samples": 1}, "1 calibration sample: too few to hold any out"),
        ({"held_back": True, "samples": 1}, "1 hold-out sample of the calibration data"),
    ],
)
def test_the_samples_are_named(changes: dict[str, object], words: str):
    text = printed(print_accuracy, Accuracy(**{"samples": 4, "outputs": (output(),), **changes}))
    assert text.splitlines()[0] == f"SQNR against the float model, on {words}"


def test_no_float_output_is_said():
    assert "  no output has float values to compare\n" in text_of()


def test_a_long_list_is_cut_and_the_rest_counted():
    shown = text_of(*[output()] * (SHOWN_OUTPUTS + 3)).splitlines()
    assert len(shown) == 1 + SHOWN_OUTPUTS + 1
    assert shown[-1] == "  … and 3 more (-v lists all)"


def layer(name: str, share: float, more: int = 0) -> FloatLayer:
    return FloatLayer(node=name, op_type="Conv", nodes=(name, *(f"{name}_{at}" for at in range(more))), share=share)


def goal(*layers: FloatLayer, worst: float | None = 21.04) -> GoalReport:
    return GoalReport(
        min_sqnr_db=30.5,
        layers=20,
        left=layers,
        float_share=sum(each.share for each in layers),
        worst_without_db=worst,
        worst_db=31.0,
        samples=8,
        runs=100,
        curve=(),
    )


def test_many_layers_are_listed_on_request():
    many = goal(*(layer(f"l{at}", 0.05) for at in range(SHOWN_STATES + 3)))
    short, long = printed(print_goal, many), printed(print_goal, many, verbose=True)
    assert short.count("Conv") == SHOWN_STATES
    assert "3 more" in short
    assert long.count("Conv") == SHOWN_STATES + 3


@pytest.mark.parametrize(
    ("worst", "told"), [(None, "has no noise"), (float("-inf"), "is NaN or infinite somewhere"), (1.26, "keeps 1.3 dB")]
)
def test_the_accuracy_without_layers_in_float(worst: float | None, told: str):
    assert f"with all quantized the worst output {told}\n" in printed(print_goal, goal(worst=worst))


@pytest.mark.parametrize(
    ("half", "full", "told"),
    [
        (30.0, 31.25, "cost 1.2 dB at y"),
        (30.0, 30.06, "cost 0.1 dB at y"),
        (30.0, 30.04, "cost less than 0.05 dB"),
        (30.0, 20.0, "cost less than 0.05 dB"),
        (-1.0, 0.0, "cost 1.0 dB at y"),
        (30.0, None, ""),
        (None, 30.0, ""),
    ],
)
def test_the_cost_of_half_precision(half: float | None, full: float | None, told: str):
    """Another output gains."""
    outputs = (output(half, float32_db=full), replace(output(40.0, float32_db=39.0), name="z"))
    text = text_of(*(outputs if told else outputs[:1]))
    assert ("in half precision instead of float32" in text) is bool(told)
    assert told in text


def test_what_a_user_should_know_comes_last():
    low = Judgement("numbers", "warning", "output 'y' keeps 5.5 dB", "`--min-sqnr 20` keeps more")
    text = lines(verdict="warning", reasons=(low,))
    assert text[-2:] == ["warning  output 'y' keeps 5.5 dB; `--min-sqnr 20` keeps more", "WARNING"]
