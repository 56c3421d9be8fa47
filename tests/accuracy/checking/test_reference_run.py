"""A run of a check, sample by sample: what it counts at nodes, pairs, outputs and boundaries, and what it tells."""

from collections.abc import Sequence

import numpy as np
import onnx
import pytest
from onnx import helper
from support.qdq import text_model
from support.small import make_model

from qdqtool.accuracy.checking import qdq_reference
from qdqtool.accuracy.checking.options import CheckOptions
from qdqtool.accuracy.checking.qdq_reference import NodeCheck
from qdqtool.accuracy.checking.reference_run import CheckJob
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.model import Model
from qdqtool.models.running.ort_errors import RunError
from qdqtool.samples.feeds import Feeds, Progress
from qdqtool.samples.report import DataDescription


def ran(
    model: Model,
    samples: Sequence[object],
    baseline: Model | None = None,
    *,
    seed: int | None = None,
    progress: Progress | None = None,
) -> CheckJob:
    fed = [{"x": np.asarray(sample, np.float32)} for sample in samples]
    index = ModelIndex.of(baseline) if baseline is not None else None
    job = CheckJob(ModelIndex.of(model), index, CheckOptions(), None)
    job.run(Feeds(fed, DataDescription("a test", len(fed), seed, {})), progress)
    return job


def checks(job: CheckJob) -> dict[str, NodeCheck]:
    return {entry.node.proto.output[0]: check for entry, check in job.checks.items()}


def text(nodes: str, constants: str = "") -> Model:
    stored = f"float s = {{0.5}}, int8 z = {{3}}{constants and ', '}{constants}"
    return text_model(
        f'<ir_version: 10, opset_import: ["": 21]> g (float[2] x) => (float[2] y) <{stored}> {{ {nodes} }}'
    )


PAIR = text("q = QuantizeLinear (x, s, z)  y = DequantizeLinear (q, s, z)")


def test_progress_is_told_before_each_sample() -> None:
    told: list[tuple[int, int]] = []
    ran(PAIR, [[1, 2], [3, 4], [5, 6]], progress=lambda done, total: told.append((done, total)))
    assert told == [(0, 3), (1, 3), (2, 3)]


@pytest.mark.parametrize(("seed", "random"), [(0, True), (7, True), (None, False)])
def test_a_sample_on_which_the_model_fails_names_it_and_blames_random_inputs_alone(
    seed: int | None, random: bool
) -> None:
    nodes = [
        helper.make_node("Cast", ["x"], ["at"], to=onnx.TensorProto.INT64),
        helper.make_node("Gather", ["w", "at"], ["y"]),
    ]
    fails = Model(make_model(nodes, {"x": (2,)}, {"y": (2,)}, {"w": np.zeros(4, np.float32)}))
    runs = Model(make_model([helper.make_node("Neg", ["x"], ["y"])], {"x": (2,)}, {"y": (2,)}, {}))
    for model, baseline, which in ((fails, None, "the model"), (runs, fails, "the baseline")):
        with pytest.raises(RunError) as caught:
            ran(model, [[1, 2], [3, 99]], baseline, seed=seed)
        assert caught.value.message.startswith(f"{which} does not run: ")
        assert ("the inputs were random" in (caught.value.hint or "")) is random


def test_the_origin_of_the_first_nan_is_kept_over_later_samples() -> None:
    nodes = [helper.make_node("Log", ["x"], ["y"], name="logarithm"), helper.make_node("Neg", ["x"], ["n"])]
    model = make_model(nodes, {"x": (2,)}, {"n": (2,), "y": (2,)}, {})
    job = ran(Model(model), [[1, 2], [3, -1], [1, 1]])
    assert "'logarithm'" in job.nonfinite_origin
    assert [output.nonfinite for output in job.outputs] == [0, 1]
    assert ran(Model(model), [[1, 2], [3, 1]]).nonfinite_origin == ""


LOOP = """
<ir_version: 10, opset_import: ["": 21]>
g (float[n] x) => (float[m] y)
<float s = {0.5}, int8 z = {0}, int64 times = {2}, bool on = {1}>
{
  grown = Loop (times, on, x) <
    body = b (int64 i, bool c, float[k] v) => (bool co, float[l] more) {
      co = Identity (c)
      lq = QuantizeLinear (v, s, z)
      ld = DequantizeLinear (lq, s, z)
      more = Concat <axis = 0> (ld, v)
    }
  >
  q = QuantizeLinear (grown, s, z)
  y = DequantizeLinear (q, s, z)
}
"""


def test_nodes_that_cannot_be_observed_say_why() -> None:
    found = checks(ran(text_model(LOOP), [[1, 2]]))
    reason = "it is in a loop with a tensor whose shape changes between iterations"
    assert {name: check.problem for name, check in found.items() if not check.was_checked} == {
        "lq": reason,
        "ld": reason,
    }
    assert [(found[name].elements, found[name].different) for name in ("q", "y")] == [(8, 0), (8, 0)]


def test_every_node_and_pair_of_every_sample_is_counted() -> None:
    job = ran(PAIR, [[1, 2], [3, 40], [0.2, -6]])
    assert [(check.elements, check.different, check.pair_different) for check in job.checks.values()] == [(6, 0, 0)] * 2
    (error,) = job.pair_errors.values()
    assert (error.elements, error.vanished, float(error.high[0])) == (6, 1, 40)


def test_a_dq_of_constants_is_compared_with_its_q() -> None:
    """wd reads the codes with another scale than they were made with, and wd2 with the same."""
    nodes = """
      wq = QuantizeLinear (w, s, z)
      wd = DequantizeLinear (wq, r, z)
      wd2 = DequantizeLinear (wq, s, z)
      a = Add (x, wd)
      y = Add (a, wd2)
    """
    found = checks(ran(text(nodes, "float[2] w = {1, 2}, float r = {0.25}"), [[1, 2]]))
    assert {name: (check.elements, check.different, check.pair_different) for name, check in found.items()} == {
        "wq": (2, 0, 0),
        "wd": (2, 0, 2),
        "wd2": (2, 0, 0),
    }


PACKED = text("wd = DequantizeLinear (codes, s, z)  y = Mul (x, wd)", "int8[2] codes = {5, -3}")


def test_packed_codes_are_compared_with_the_constant_of_the_baseline() -> None:
    (boundary,) = ran(PACKED, [[1, 2]], text("y = Mul (x, w)", "float[2] w = {1.125, -3}")).boundaries
    assert (boundary.max_steps, boundary.sum_steps, boundary.error.elements) == (0.25, 0.25, 2)
    assert boundary.index == (0,)
    assert boundary.problem == ""


def test_activations_are_compared_with_the_baseline_in_every_sample() -> None:
    model = text("q = QuantizeLinear (x, s, z)  d = DequantizeLinear (q, s, z)  y = Neg (d)")
    (boundary,) = ran(model, [[1, 2.125], [3.25, 4]], text("y = Neg (x)")).boundaries
    assert (boundary.max_steps, boundary.sum_steps, boundary.error.elements) == (0.5, 0.75, 4)
    assert (boundary.clipped, boundary.problem) == (0, "")


def test_codes_whose_counterpart_is_no_constant_are_not_compared() -> None:
    (boundary,) = ran(PACKED, [[1, 2]], text("w = Neg (x)  y = Mul (x, w)")).boundaries
    assert (boundary.error.elements, boundary.problem) == (0, "the baseline's tensor could not be observed")


def test_constants_too_large_for_one_model_are_told_and_the_others_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = """
      ld = DequantizeLinear (large, s, z)
      sum = ReduceSum <keepdims = 0> (ld)
      wd = DequantizeLinear (codes, s, z)
      a = Mul (x, wd)
      y = Add (a, sum)
    """
    model = text(nodes, "int8[9] large = {1, 2, 3, 4, 5, 6, 7, 8, 9}, int8[2] codes = {5, -3}")
    monkeypatch.setattr(qdq_reference, "LARGEST_MODEL", 8)
    found = checks(ran(model, [[1, 2]]))
    assert (found["ld"].was_checked, found["ld"].problem) == (
        False,
        "its constant is too large for one model in memory",
    )
    assert (found["wd"].elements, found["wd"].different) == (2, 0)


HIDDEN = """
<ir_version: 10, opset_import: ["": 21, "com.microsoft": 1]>
g (float[2] x, bool c) => (float[2] y)
<float s = {0.5}, int8 z = {3}, float other = {0.25}>
{
  y = If (c) <
    then_branch = t () => (float[2] d) {
      u = DATA (x)
      f = SCALE (s)
      q = QuantizeLinear (u, f, z)
      d = DequantizeLinear (q, s, z)
    },
    else_branch = e () => (float[2] n) { n = Neg (x) }
  >
}
"""
SAMPLE, ABS = "com.microsoft.SampleOp", "Abs"
PLAIN = """
<ir_version: 10, opset_import: ["": 21, "com.microsoft": 1]>
g (float[2] x, bool c) => (float[2] y)
{
  y = If (c) <
    then_branch = t () => (float[2] d) { u = DATA (x)  d = Identity (u) },
    else_branch = e () => (float[2] n) { n = Neg (x) }
  >
}
"""


@pytest.mark.parametrize(("data", "scale"), [(SAMPLE, ABS), (ABS, SAMPLE), (SAMPLE, SAMPLE), (ABS, ABS)])
def test_a_q_whose_data_or_scale_cannot_be_read_is_not_checked(data: str, scale: str) -> None:
    """In a body, a tensor whose type nothing tells cannot be returned."""
    model = text_model(HIDDEN.replace("DATA", data).replace("SCALE", scale))
    baseline = text_model(PLAIN.replace("DATA", data))
    job = CheckJob(ModelIndex.of(model), ModelIndex.of(baseline), CheckOptions(), None)
    samples = [{"x": np.float32([1, 2]), "c": np.array(True)}]
    job.run(Feeds(samples, DataDescription("a test", 1, None, {})))
    found, is_seen = checks(job), data == scale == ABS
    assert found["q"].was_checked is is_seen
    told = [(each.baseline.name, each.error.elements, each.problem) for each in job.boundaries]
    problem = "" if is_seen else "the baseline's tensor could not be observed"
    assert told == [("u", 2 * is_seen, problem)]
    assert [error.elements for error in job.pair_errors.values()] == [2 * is_seen]


FUNCTION = """
<ir_version: 10, opset_import: ["": 21, "own": 1]>
g (float[2,2] x) => (float[2,2] y) <float[2] s = {0.5, 0.25}> {
  a = own.F <axis = 1> (x, s)
  y = own.F <axis = 1> (a, s)
}
<domain: "own", opset_import: ["": 21]> F <axis> (x, s) => (y) {
  k = Constant <value = int8[2,2] {1,2,3,4}> ()
  t = Constant <value = float[2] {0.5, 0.25}> ()
  w = DequantizeLinear <axis: int = @axis> (k, t)
  q = QuantizeLinear <axis: int = @axis, output_dtype = 3> (x, s)
  d = DequantizeLinear <axis: int = @axis> (q, s)
  y = Add (d, w)
}
"""


def test_nodes_of_a_function_are_computed_with_the_attributes_of_its_calls() -> None:
    found = checks(ran(text_model(FUNCTION), [[[1.0, 2.0], [3.0, 4.0]]]))

    assert {name: (check.elements, check.different) for name, check in found.items()} == {
        "w": (8, 0),
        "q": (8, 0),
        "d": (8, 0),
    }


def test_nodes_that_differ_from_call_to_call_are_not_compared() -> None:
    found = checks(ran(text_model(FUNCTION.replace("axis = 1> (a", "axis = 0> (a")), [[[1.0, 2.0], [3.0, 4.0]]]))

    reason = "the calls of its local function give it different attributes"
    assert {name: (check.elements, check.problem) for name, check in found.items()} == dict.fromkeys("wqd", (0, reason))
