"""The report of a check whose findings are given: what was not observed, warnings, known faults, the worst output."""

from dataclasses import replace

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from support.qdq import LOOP_AND_BRANCHES, pair_model, text_model
from support.small import make_model

from qdqtool.accuracy.checking.limits import Gates
from qdqtool.accuracy.checking.options import CheckOptions
from qdqtool.accuracy.checking.reference_run import CheckJob, Evidence
from qdqtool.accuracy.checking.report import CheckReport, GateResult, KnownFault, NotObserved, OutputResult, WorstOutput
from qdqtool.accuracy.checking.sample_errors import SampleOrigin
from qdqtool.accuracy.checking.verdict import verdict
from qdqtool.accuracy.checking.worst_output import worst_output
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.model import Model
from qdqtool.models.report import Reference
from qdqtool.samples.report import DataDescription

REFERENCE = Reference("onnxruntime", "1", "semantic", {}, (), "", (), 21, 10, "onnxruntime")
SEEN = np.float32([1.0, 2.0])


def negation(shape: tuple[int | str, ...] = ("n",)) -> Model:
    """A model without Q and DQ that has the input and the output of a pair."""
    return Model(make_model([helper.make_node("Neg", ["x"], ["y"])], {"x": shape}, {"y": shape}, {}))


def job_of(model: Model, baseline: Model | None = None, options: CheckOptions | None = None) -> CheckJob:
    """A check before its first sample."""
    index = ModelIndex.of(model)
    return CheckJob(index, ModelIndex.of(baseline) if baseline is not None else None, options or CheckOptions(), None)


def told(job: CheckJob, *, seed: int | None = None) -> CheckReport:
    job.unrepeated = ()
    return verdict(job, REFERENCE, DataDescription("file", 1, seed, {}))


def test_nodes_that_were_not_checked_are_told_with_the_reason() -> None:
    job = job_of(pair_model(TensorProto.INT8))
    first, second = job.checks.values()
    second.problem = "why"
    report = told(job)
    assert report.not_observed == (
        NotObserved(node="quant", graph="", tensor="q", reason="it did not run on this data"),
        NotObserved(node="dequant", graph="", tensor="y", reason="why"),
    )
    first.elements = second.elements = 4
    assert told(job).not_observed == ()
    assert (report.qdq.total, report.qdq.checked, told(job).qdq.checked) == (2, 0, 2)


def test_boundaries_that_were_not_compared_are_told() -> None:
    job = job_of(pair_model(TensorProto.INT8), pair_model(TensorProto.INT8))
    for check in job.checks.values():
        check.elements = 1
    (boundary,) = job.boundaries
    start = "not compared with the baseline: "
    entry = {"node": "quant", "graph": "", "tensor": boundary.baseline.name}
    assert told(job).not_observed == (NotObserved(**entry, reason=f"{start}it did not run on this data"),)
    boundary.problem = "why"
    assert told(job).not_observed == (NotObserved(**entry, reason=f"{start}why"),)
    boundary.error.add(SEEN, SEEN)
    assert len(told(job).not_observed) == 1
    boundary.problem = ""
    assert told(job).not_observed == ()


def test_samples_of_another_shape_are_told() -> None:
    job = job_of(negation(), negation())
    (output,) = job.outputs
    assert told(job).not_observed == ()
    for _ in range(2):
        output.add(SEEN, SEEN[:1], SampleOrigin(0))
    reason = "not compared with the baseline: its shape differs for 2 of the samples"
    assert told(job).not_observed == (NotObserved(node="Neg -> y", graph="", tensor="y", reason=reason),)


def test_an_input_that_is_an_output_has_no_node_to_name() -> None:
    model = make_model([], {"x": ("n",)}, {"x": ("n",)}, {})
    job = job_of(Model(model), Model(model))
    job.outputs[0].add(SEEN, SEEN[:1], SampleOrigin(0))
    assert told(job).not_observed == ()


def test_nodes_without_a_counterpart_are_told_with_their_graph() -> None:
    model = text_model(LOOP_AND_BRANCHES)
    baseline = onnx.ModelProto()
    baseline.CopyFrom(model.proto)
    job = job_of(model, Model(baseline))
    job.lonely.extend(entry for entry in job.index.qdq.nodes if entry.node.scope.path)
    reason = "not compared: the baseline has no tensor of that name or place"
    lonely = [each for each in told(job).not_observed if each.reason == reason]
    assert len(lonely) == len(job.lonely) > 0
    assert lonely[0] == NotObserved(node="QuantizeLinear -> tq", graph="y.then_branch", tensor="x", reason=reason)
    label = "QuantizeLinear 'QuantizeLinear -> tq' in y.then_branch was not compared"
    assert f"{label}: the baseline has no such tensor" in Evidence.of(job).unmatched


def test_evidence_sorts_boundaries_and_says_what_could_not_be_compared() -> None:
    job = job_of(pair_model(TensorProto.INT8, scale=1.0), pair_model(TensorProto.INT8, scale=1.0))
    (boundary,) = job.boundaries
    evidence = Evidence.of(job, is_random=True)
    assert (evidence.boundaries, evidence.unmatched, evidence.is_random) == ((), (), True)
    assert not Evidence.of(job).is_random
    boundary.add(np.int8([1]), np.float32(1), None, np.float32([1.25]), None)
    far = type(boundary)(boundary.entry, boundary.codes, boundary.baseline, boundary.fmt, is_weight=False)
    far.add(np.int8([1]), np.float32(1), None, np.float32([1.5]), None)
    far.problem = "why"
    job.boundaries.append(far)
    evidence = Evidence.of(job)
    assert [each.max_steps for each in evidence.boundaries] == [0.5, 0.25]
    assert evidence.unmatched == ("QuantizeLinear 'quant' was not compared: why",)


def test_known_faults_add_up_over_the_nodes() -> None:
    job = job_of(pair_model(TensorProto.INT8))
    first, second = job.checks.values()
    first.faults.update({"wraps": 3, "divides": 1})
    second.faults.update({"wraps": 2})
    assert told(job).known_faults == (
        KnownFault(fault="divides", nodes=("quant",), elements=1),
        KnownFault(fault="wraps", nodes=("quant", "dequant"), elements=5),
    )
    assert told(job_of(pair_model(TensorProto.INT8))).known_faults == ()


def test_only_nodes_that_differ_are_differences() -> None:
    job = job_of(pair_model(TensorProto.INT8))
    first, second = job.checks.values()
    first.elements, second.elements, second.different = 4, 4, 1
    report = told(job)
    assert [each.node for each in report.differences] == ["dequant"]
    assert (report.passed, report.failures) == (False, tuple(f for gate in report.gates for f in gate.failures))
    second.different = 0
    assert told(job).passed


@pytest.mark.parametrize("model", [negation(), pair_model(TensorProto.INT8)])
@pytest.mark.parametrize("baseline", [None, negation(), pair_model(TensorProto.INT8)])
def test_models_without_q_are_warned_of_and_q_of_baselines_counted(model: Model, baseline: Model | None) -> None:
    report = told(job_of(model, baseline))
    has_none = "the model has no QuantizeLinear or DequantizeLinear: only its outputs were checked"
    assert (has_none in report.warnings) is (len(model.proto.graph.node) == 1)
    assert report.baseline_qdq == (0 if baseline is None or len(baseline.proto.graph.node) == 1 else 2)


def test_nan_is_warned_of_only_where_the_baseline_has_it_too() -> None:
    bad, line = np.float32([np.nan, 1]), "output 'y' has 1 NaN or infinite elements, as in the baseline"
    for baseline, warned in ((bad, True), (SEEN, False)):
        job = job_of(negation(), negation())
        job.outputs[0].add(bad, baseline, SampleOrigin(0))
        assert (line in told(job).warnings) is warned
    job = job_of(negation(), negation())
    job.outputs[0].add(SEEN, bad, SampleOrigin(0))
    assert not any("NaN" in warning for warning in told(job).warnings)


@pytest.mark.parametrize("gates", [Gates(), Gates(max_weight_steps=1.0), Gates(max_steps=1.0), Gates(min_sqnr=0.0)])
def test_saved_outputs_without_a_limit_are_warned_of(gates: Gates, tmp_path) -> None:
    np.savez(tmp_path / "o.npz", y=np.float32([1, 2]))
    job = job_of(negation(), None, CheckOptions(outputs=tmp_path / "o.npz", gates=gates))
    with job.sinks:
        warned = any(each.startswith("no limit was given for the saved outputs") for each in told(job).warnings)
    assert warned is not gates.bounds_outputs()
    assert not any("saved" in each for each in told(job_of(negation())).warnings)


def test_warnings_of_gates_are_those_of_random_inputs() -> None:
    job = job_of(negation(), negation())
    job.outputs[0].add(SEEN, -SEEN, SampleOrigin(0))
    assert not told(job).passed
    report = told(job, seed=0)
    assert report.passed
    assert any(warning.endswith("; the inputs were random") for warning in report.warnings)


ACCURACY = GateResult(name="accuracy", requires="", passed=True, detail="")
MIN_SQNR = GateResult(name="min-sqnr", requires="", passed=True, detail="")


def output(name: str, **found: object) -> OutputResult:
    return OutputResult(**{"name": name, "nonfinite": 0, "exact": False, **found})


def test_exact_outputs_and_those_that_were_not_compared_have_no_worst() -> None:
    assert worst_output([output("a", exact=True), output("b", exact=None)], [ACCURACY]) is None


def test_floats_compare_by_their_ratio_and_name_the_strictest_gate() -> None:
    outputs = [output("a", sqnr_db=30.0), output("b", sqnr_db=12.0)]
    found = worst_output(outputs, [ACCURACY, MIN_SQNR])
    assert (found.name, found.gate, found.sqnr_db) == ("b", "min-sqnr", 12.0)


def test_wrong_elements_compare_with_floats_as_noise() -> None:
    """90 % that agree are one tenth that is wrong: 10 dB."""
    labels = output("labels", agreement=0.9, sqnr_db=80.0)
    for ratio, worst in ((9.0, "y"), (11.0, "labels")):
        found = worst_output([output("y", sqnr_db=ratio), labels], [ACCURACY, MIN_SQNR])
        assert found.name == worst
    assert (found.gate, found.sqnr_db, found.agreement) == ("accuracy", None, 0.9)


def test_an_output_whose_reference_is_zero_shows_its_error() -> None:
    found = worst_output([output("y", zero_reference=True, max_abs=0.25)], [ACCURACY])
    assert (found.sqnr_db, found.max_abs) == (None, 0.25)


@pytest.mark.parametrize("others", [[], [0.0], [None, 5.0], [-3.0, 7.0]])
def test_the_lowest_ratio_is_the_worst_and_an_undefined_one_is_nothing(others: list[float | None]) -> None:
    outputs = [output("y", sqnr_db=12.0), *(output(f"o{n}", sqnr_db=db) for n, db in enumerate(others))]
    found = worst_output(outputs, [])
    ratios = [0.0 if each.sqnr_db is None else each.sqnr_db for each in outputs]
    assert found.name == outputs[ratios.index(min(ratios))].name
    assert found.gate == "accuracy"


def test_labels_are_judged_by_their_own_gate_and_show_no_ratio() -> None:
    gates = [ACCURACY, replace(MIN_SQNR, name="min-agreement")]
    found = worst_output([output("labels", agreement=0.5, sqnr_db=3.0, max_abs=2.0)], gates)
    assert found == WorstOutput(name="labels", gate="min-agreement", sqnr_db=None, agreement=0.5, max_abs=None)
    found = worst_output([output("y", sqnr_db=3.0, max_abs=2.0)], gates)
    assert found == WorstOutput(name="y", gate="accuracy", sqnr_db=3.0, agreement=None, max_abs=None)


def test_labels_that_all_agree_in_other_shapes_are_better_than_any_float() -> None:
    outputs = [output("labels", agreement=1.0), output("y", sqnr_db=200.0)]
    found = worst_output(outputs, [])
    assert found.name == "y"
