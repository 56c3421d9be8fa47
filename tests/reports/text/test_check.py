"""What the terminal says of a check."""

from dataclasses import replace

from support.accuracy_parts import BLAMED, BOUNDARY
from support.printed import ESCAPED, HOSTILE, cells, printed

from qdqtool.accuracy.checking.report import (
    CheckReport,
    EvaluatedNode,
    GateResult,
    KnownFault,
    MetricResult,
    NotObserved,
    OutputResult,
    QdqCount,
    SavedOutputs,
)
from qdqtool.accuracy.report import BlameReport, ClassRecall
from qdqtool.models.report import Reference
from qdqtool.reports.text.check import render
from qdqtool.samples.report import DataDescription

FINITE = GateResult(name="finite", requires="no NaN", passed=True, detail="none")
OUTPUT = OutputResult(name="y", nonfinite=0, sqnr_db=31.234, cosine=0.99, max_abs=0.5, max_steps=None)
REPORT = CheckReport(
    passed=True,
    model="m.onnx",
    baseline=None,
    reference=Reference("onnxruntime", "1.2", "exact", {}, ("CPU",), "a cpu", ("avx2",), 21, 10),
    data=DataDescription("d.npz", 4, None, {"x": (4, 3)}),
    gates=(FINITE,),
    failures=(),
    outputs=(OUTPUT,),
    saved_outputs=None,
    written=None,
    metric=None,
    boundaries=(),
    qdq=QdqCount(total=3, checked=3, own=0),
    evaluated=(),
    differences=(),
    known_faults=(),
    not_observed=(),
    warnings=(),
)


def lines(**changes: object) -> list[str]:
    return printed(render, replace(REPORT, **changes)).splitlines()


def test_session_and_data_are_described():
    assert lines()[:5] == [
        "check m.onnx",
        "  reference  onnxruntime 1.2 CPU, profile exact; opset 21, IR 10",
        "  options    defaults",
        "  processor  a cpu: avx2",
        "  data       d.npz: 4 samples; x:4x3",
    ]
    assert lines(baseline="f.onnx")[0] == "check m.onnx against f.onnx"
    assert "  data       random inputs, seed 7: 2 samples; no inputs" in lines(data=DataDescription("", 2, 7, {}))


def test_what_onnxruntime_did_not_run_is_grouped_by_reason():
    node = EvaluatedNode(node="n", op_type="Q", graph="", evaluated_by="qdqtool", reason="no kernel")
    other = replace(node, reason="no type")
    half = replace(node, evaluated_by="onnxruntime-float32", type="bfloat16")
    assert "  evaluated  2 nodes by qdqtool (no kernel); 1 node by qdqtool (no type)" in lines(
        evaluated=(node, node, other)
    )
    assert "  evaluated  2 bfloat16 nodes ran in float32, rounded after each node" in lines(evaluated=(half, half))


def test_the_verdict_says_what_random_inputs_excused():
    doubtful = replace(FINITE, name="accuracy", requires="0 dB", detail="1 of 1 are lost", warnings=("y has -40 dB",))
    text = lines(gates=(FINITE, doubtful), warnings=doubtful.warnings)
    assert ["accuracy", "WARN", "0 dB", "1 of 1 are lost"] in cells("\n".join(text))
    assert text[-1].startswith("PASSED   2 gates held, 1 of them only because the inputs were random; ")


def test_outputs_are_compared_with_the_baseline_only_where_there_is_one():
    exact = replace(OUTPUT, name="z", exact=True, cosine=1.0, max_abs=0.0, max_steps=0)
    compared = cells("\n".join(lines(baseline="f.onnx", outputs=(OUTPUT, exact))))

    assert "outputs  y (not compared: no --baseline is given)" in lines()
    assert ["output", "SQNR dB", "cosine", "max abs", "max steps"] in compared
    assert ["y", "31.23", "0.9900000", "0.5", "-"] in compared
    assert ["z", "exact", "exact", "0", "0"] in compared
    codes = replace(OUTPUT, name="k", sqnr_db=None, cosine=None, max_abs=2.0, agreement=0.75)
    assert ["k", "75.00% equal", "-", "2", "-"] in cells("\n".join(lines(baseline="f.onnx", outputs=(codes,))))


def test_saved_outputs_have_a_table_of_their_own():
    text = lines(saved_outputs=SavedOutputs(file="o.npz", outputs=(OUTPUT,)), written="w.npz")
    assert "outputs in o.npz against the reference" in text
    assert ["y", "31.23", "0.9900000", "0.5", "-"] in cells("\n".join(text))
    assert "outputs of the reference in w.npz" in text


def test_a_task_metric_has_its_losses():
    metric = MetricResult(
        name="top-1",
        output="y",
        unit="%",
        loss_unit="percentage points",
        predictions=1,
        value=75.0,
        baseline=80.0,
        loss=5.0,
        saved=70.0,
        saved_loss=5.0,
    )
    text = lines(metric=metric)

    assert "top-1 75 % at 'y', 1 prediction" in text
    assert "  baseline 80 %: the model loses 5 percentage points" in text
    assert "  saved outputs 70 %: they lose 5 percentage points" in text
    worst = ClassRecall(label=7, predictions=12, value=25.0, baseline=100.0)
    text = lines(metric=replace(metric, classes=(worst, replace(worst, label=8))))
    assert "  recall of 2 classes, the largest loss: class 7, 25 % (baseline 100 %) of 12 predictions" in text
    assert sum(line.startswith("  recall of ") for line in text) == 1
    text = lines(metric=replace(metric, classes=(replace(worst, baseline=None, predictions=1),)))
    assert "  recall of 1 classes, the largest loss: class 7, 25 % of 1 prediction" in text
    copies = lines(metric=replace(metric, predictions=64, distinct_predictions=1))
    assert "top-1 75 % at 'y', 64 predictions, 1 on distinct inputs" in copies


def test_what_was_not_checked_is_never_silent():
    skipped = NotObserved(node="q", graph="then", tensor="t", reason="the branch never ran")
    other = replace(skipped, node="other", graph="", reason="no range")
    text = lines(not_observed=(*(skipped,) * 11, other), qdq=QdqCount(total=14, checked=2, own=1))
    assert [line for line in text if line.startswith("SKIPPED")] == [
        "SKIPPED  q in then, q in then, q in then, … (11 in all): the branch never ran",
        "SKIPPED  other: no range",
    ]
    assert text[-1].endswith("2 of 14 Q/DQ nodes checked, 1 evaluated by qdqtool alone, 12 SKIPPED")


def test_notes_and_warnings_are_printed():
    text = lines(
        boundaries=(replace(BOUNDARY, judged_by_data=True),),
        known_faults=(KnownFault(fault="rounds twice", nodes=("a", "b"), elements=1),),
        warnings=("few samples",),
    )
    assert "note     codes of t were chosen with data: judged by the recorded error" in text
    assert "note     ONNX Runtime rounds twice: 1 element at 2 nodes" in text
    assert "warning  few samples" in text


def test_what_makes_the_noise_stands_between_the_notes_and_the_verdict():
    noisy = replace(BOUNDARY, sqnr_db=20.0)
    blame = BlameReport(output="y", samples=1, runs=9, layers=(), rest_share=0.2)
    text = lines(boundaries=(noisy,), warnings=("few samples",))
    start = text.index("warning  few samples")

    assert text[start + 1 : -2] == [
        "",
        "most noise against the baseline, 1 of 1 quantized tensor",
        "  tensor     kind         noise  SQNR dB",
        "  t in then  activation  10.00%     20.0",
    ]
    unknown = lines(boundaries=(noisy,), blame=blame)
    assert unknown[-7:-5] == ["no single layer dominates: each makes at most 20% of the noise at y", ""]
    assert unknown[-5:-3] == text[start + 2 : start + 4]
    known = lines(boundaries=(noisy,), blame=replace(blame, layers=(BLAMED,)))
    assert known[-6] == "layers that make most of the noise at y, on 1 sample"
    assert not any(line.startswith("most noise against") for line in known)


def test_strings_of_model_and_data_are_escaped():
    text = "\n".join(
        lines(
            model=HOSTILE,
            baseline=HOSTILE,
            outputs=(replace(OUTPUT, name=HOSTILE),),
            boundaries=(replace(BOUNDARY, tensor=HOSTILE, node=HOSTILE),),
            not_observed=(NotObserved(node=HOSTILE, graph=HOSTILE, tensor="", reason=HOSTILE),),
            failures=(HOSTILE,),
            warnings=(HOSTILE,),
            data=DataDescription(HOSTILE, 1, None, {HOSTILE: (1,)}),
        )
    )

    assert text.count("evil") == text.count(ESCAPED) == 12
