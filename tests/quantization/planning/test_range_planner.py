"""Plans from ranges: the scales of pairs, and the operators that are left in float for want of a range."""

from dataclasses import replace

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import helper
from support.magnitudes import seen as counted
from support.refusals import refused
from support.small import conv_model, make_model, matmul_model, nodes_of

from qdqtool.errors import UsageError
from qdqtool.models import ops
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.model import Model
from qdqtool.models.plan import Placement, Slot
from qdqtool.numerics import formats
from qdqtool.numerics.granularity import PerTensor
from qdqtool.numerics.scheme import QuantParams, QuantScheme
from qdqtool.quantization.planning.existing_pairs import NEVER_RUN, NOT_GIVEN, propose_for
from qdqtool.quantization.planning.options import HighPrecision
from qdqtool.quantization.planning.placement import ProposedSlot, Selection, SkippedNode
from qdqtool.quantization.planning.planner import Planned
from qdqtool.quantization.planning.range_planner import RangePlanner, share_scales
from qdqtool.quantization.planning.recipe import Recipe
from qdqtool.quantization.ranges.method_choice import encode_choice
from qdqtool.quantization.ranges.types import UNSEEN, CalibrationRecord, Ranges, TensorRange


def seen(amax: float) -> TensorRange:
    return TensorRange(-amax, amax, amax, 9)


def planned(model: onnx.ModelProto, ranges: dict[str, TensorRange], *, samples: int = 1, **recipe: object) -> Planned:
    record = CalibrationRecord(method="max", samples=samples, random=True, seed=0, data_sha256="", model_sha256="")
    found = Ranges(record, {((), name): each for name, each in ranges.items()})
    return RangePlanner(Recipe(**{"method": "max", **recipe}), found).plan(ModelIndex.of(Model(model)))


def scales(found: Planned) -> dict[str, np.ndarray]:
    return {placement.slot.tensor: placement.params.scale for placement in found.plan}


@pytest.mark.parametrize(("mode", "high"), [("int8", 127), ("fp8", 448)])
def test_a_scale_is_the_largest_magnitude_over_the_largest_code(mode, high):
    model = conv_model()
    weights = {each.name: onnx.numpy_helper.to_array(each).copy() for each in model.graph.initializer}
    weights["w"][1], weights["w"][2] = np.abs(weights["w"][1]), -np.abs(weights["w"][2])
    weights["w"][1, 0, 0, 0] = weights["w"][2, 0, 0, 0] = weights["w"][3] = 0
    model.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(weights["w"], "w"))
    found = planned(model, {"x": seen(5.0), "r": seen(3.0)}, quantize_mode=mode)
    amax = {"x": 5.0, "r": 3.0, **{name: np.abs(weights[name]).max((1, 2, 3)) for name in "wv"}}
    assert scales(found).keys() == amax.keys()
    for name, scale in scales(found).items():
        expected = np.where(np.asarray(amax[name]) > 0, np.float32(amax[name]) / np.float32(high), 1)
        np.testing.assert_allclose(scale, expected, rtol=2**-22, err_msg=name)
        assert scale.dtype == np.float32
    assert {placement.params.zero_point for placement in found.plan} == {None}
    assert [(each.tensor, each.condition, each.scales, each.of) for each in found.degenerate] == [("w", "zeros", 1, 4)]


def test_weights_that_are_known_are_not_derived_again():
    index = ModelIndex.of(Model(conv_model()))
    record = CalibrationRecord(method="max", samples=1, random=True, seed=0, data_sha256="", model_sha256="")
    recipe, ranges = Recipe(method="max"), Ranges(record, {((), "x"): seen(5.0), ((), "r"): seen(3.0)})
    first = RangePlanner(recipe, ranges).plan(index).plan
    known = {each.slot: each.params for each in first}
    larger = Ranges(record, {((), "x"): seen(10.0), ((), "r"): seen(3.0)})
    second = RangePlanner(recipe, larger, known).plan(index).plan
    same = {each.slot.tensor for each in second if known[each.slot] is each.params}
    assert same == {"w", "v"}
    assert {each.slot.tensor: each.params.scale for each in second}["x"] == np.float32(10) / np.float32(127)


def test_the_output_of_a_softmax_has_a_known_bound_in_fp8():
    nodes = [helper.make_node("Softmax", ["x"], ["s"]), helper.make_node("MatMul", ["s", "w"], ["y"])]
    model = make_model(nodes, {"x": (4, 32)}, {"y": (4, 32)}, {"w": np.eye(32, dtype=np.float32)})
    ranges = {"s": seen(0.25)}
    assert scales(planned(model, ranges, quantize_mode="fp8"))["s"] == np.float32(1 / 448)
    assert scales(planned(model, ranges))["s"] == np.float32(0.25 / 127)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_weight_that_is_not_finite_is_named(value):
    model = conv_model()
    weights = onnx.numpy_helper.to_array(model.graph.initializer[0]).copy()
    weights[1, 2, 0, 1] = value
    model.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(weights, "w"))
    with refused(UsageError, "weight 'w' has NaN or infinities", hint="exclude the nodes that use it"):
        planned(model, {"x": seen(5.0), "r": seen(3.0)})


def test_a_weight_whose_data_is_missing_is_named():
    proto = conv_model()
    onnx.external_data_helper.set_external_data(proto.graph.initializer[0], "lost")
    proto.graph.initializer[0].ClearField("raw_data")
    ranges = Ranges(planned_record(), {((), "x"): seen(1.0), ((), "r"): seen(1.0)})
    with refused(UsageError, "weight 'w' cannot be read", hint="exclude the nodes that use it"):
        RangePlanner(Recipe(), ranges).plan(ModelIndex.of(Model(proto, missing_data=frozenset({"lost"}))))


def planned_record() -> CalibrationRecord:
    return CalibrationRecord(method="max", samples=1, random=True, seed=0, data_sha256="", model_sha256="")


def test_ranges_that_lack_a_tensor_are_refused():
    with refused(
        UsageError,
        "the ranges have no tensor 'r', which is to be quantized",
        hint="calibrate with the same options: they decide which tensors have ranges",
    ):
        planned(conv_model(), {"x": seen(5.0)})


@pytest.mark.parametrize(("samples", "why"), [(1, NEVER_RUN), (0, NOT_GIVEN)])
def test_an_operator_that_reads_an_unseen_tensor_loses_all_its_pairs(samples, why):
    found = planned(conv_model(), {"x": UNSEEN, "r": seen(2.54)}, samples=samples)
    assert set(scales(found)) == {"r", "v"}
    (skipped,) = found.skipped
    assert skipped == SkippedNode("conv1", "Conv", "", skipped.reason)
    assert (skipped.reason.code, skipped.reason.text) == ("no-range", f"input 'x': {why}")


def test_where_nothing_has_a_range_nothing_is_left():
    with pytest.raises(UsageError) as caught:
        planned(conv_model(), {"x": UNSEEN, "r": UNSEEN})
    told = f"nothing is left to quantize: 'conv1' (Conv): input 'x': {NEVER_RUN} (and 1 more node)"
    assert caught.value.message == told


def moved_weight() -> onnx.ModelProto:
    """Two products read one weight behind a Transpose, and a third reads it in front."""
    nodes = nodes_of("""t = Transpose <perm = [1, 0]> (w)  a = Relu (x)  [first] y = MatMul (x, t)
        [second] z = MatMul (a, t)  [third] u = MatMul (a, w)""")
    weights = {"w": np.random.default_rng(1).normal(size=(32, 32)).astype(np.float32)}
    return make_model(nodes, {"x": (4, 32)}, dict.fromkeys("yzu", (4, 32)), weights)


@pytest.mark.parametrize(
    ("unseen", "pairs", "skipped"),
    [
        ("", ["x: first", "t: first, second", "a: second, third", "w: third"], []),
        ("x", ["w: Transpose", "a: second, third", "w: third"], ["first"]),
        ("a", ["x: first", "w: Transpose"], ["second", "third"]),
    ],
)
def test_a_moved_weight_keeps_its_pair_as_long_as_one_product_behind_it_has_all_ranges(unseen, pairs, skipped):
    model = moved_weight()
    found = planned(model, {name: UNSEEN if name == unseen else seen(1.0) for name in "xa"})
    names = {node.output[0]: node.name or node.op_type for node in model.graph.node}
    shown = [
        f"{each.slot.tensor}: {', '.join(names[use.node[0]] for use in each.slot.uses or ())}" for each in found.plan
    ]
    expected = [pair.replace("t: first, second", "w: Transpose") for pair in pairs]
    assert shown == expected
    assert [node.node for node in found.skipped] == skipped


def test_what_computes_with_a_weight_is_what_stands_behind_the_operators_that_move_it():
    index = ModelIndex.of(Model(moved_weight()))
    found = {node.label: [behind.label for behind in ops.computing_nodes(node)] for node in index.view.nodes()}
    assert found.pop("first") == ["first"]
    assert [behind for label, behind in found.items() if label not in ("second", "third")] == [
        ["first", "second"],
        [next(label for label in found if "Relu" in label)],
    ]


def test_an_operator_that_moves_a_weight_nowhere_computes_itself():
    model = moved_weight()
    model.graph.node[0].output[0] = ""
    (mover,) = (node for node in ModelIndex.of(Model(model)).view.nodes() if node.is_op("Transpose"))
    assert list(ops.computing_nodes(mover)) == [mover]


def test_what_the_target_refuses_of_the_plan_is_an_error():
    """A product of fp4 is of use to TensorRT, but not with an odd number of elements."""
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"], "product")]
    model = make_model(nodes, {"x": (3, 33)}, {"y": (3, 17)}, {"w": np.ones((33, 17), np.float32)}, opset=23)
    with pytest.raises(UsageError, match="tensor 'x': tensorrt takes no float4e2m1 tensor with an odd number of elem"):
        planned(model, {"x": seen(1.0)}, quantize_mode="float4e2m1")


def test_only_what_is_selected_needs_a_range():
    found = planned(conv_model(), {"x": seen(1.0)}, selection=Selection(nodes_to_exclude=("conv2",)))
    assert set(scales(found)) == {"x", "w"}


def test_the_pairs_of_activations_alone_are_those_of_the_plan():
    """A residual Add whose two inputs share a scale, and a product whose input no sample computed."""
    nodes = nodes_of("""[one] c = Conv (x, w)  [add] s = Add (c, x)  r = Relu (s)  [two] d = Conv (r, v)  a = Abs (d)
        [three] y = Conv (a, v)""")
    eye = np.eye(16, dtype=np.float32).reshape(16, 16, 1, 1)
    model = make_model(nodes, {"x": (1, 16, 4, 4)}, {"y": (1, 16, 4, 4)}, {"w": eye, "v": 2 * eye})
    ranges = {name: seen(amax) for name, amax in (("x", 1.0), ("c", 3.0), ("s", 4.0), ("r", 4.0), ("d", 8.0))}
    ranges["a"] = UNSEEN
    plan = [each for each in planned(model, ranges).plan if each.slot.tensor not in ("w", "v")]
    found = Ranges(planned_record(), {((), name): each for name, each in ranges.items()})
    index, recipe = ModelIndex.of(Model(model)), Recipe(method="max")
    alone = RangePlanner(recipe, found).activations(index, propose_for(index, recipe).slots)
    assert [each.slot for each in alone] == [each.slot for each in plan]
    assert [each.reason for each in alone] == [each.reason for each in plan]
    assert [each.params.scale.tolist() for each in alone] == [each.params.scale.tolist() for each in plan]
    assert {each.slot.tensor for each in alone} >= {"x", "r"}
    assert "a" not in {each.slot.tensor for each in alone}


def test_the_method_that_was_chosen_for_auto_makes_the_scales():
    values = np.random.default_rng(0).laplace(size=100_000).astype(np.float32)
    proto, record = matmul_model(inner=16), planned_record()
    scales_of = {}
    for asked, chosen in (("auto", ""), ("auto", "max"), ("max", ""), ("mse", "max"), ("mse", "")):
        steps = (encode_choice(chosen),) if chosen else ()
        ranges = Ranges(replace(record, preparation=steps), {((), "x"): counted(values)})
        found = RangePlanner(Recipe(method=asked), ranges).plan(ModelIndex.of(Model(proto)))
        scales_of[asked, chosen] = float(scales(found)["x"])
    assert scales_of["auto", "max"] == scales_of["max", ""] == pytest.approx(np.abs(values).max() / 127, rel=1e-6)
    assert scales_of["auto", ""] == scales_of["mse", ""] == scales_of["mse", "max"] < 0.9 * scales_of["max", ""]


def test_a_tensor_of_zeros_does_not_decide_the_scale_of_its_group():
    nodes = nodes_of("""t = Mul (x, zero)  p = MatMul (t, w)  [join] both = Concat <axis = 1> (x, t)
        q = MatMul (both, v)  y = Add (p, q)""")
    constants = {"w": np.eye(4, 8, dtype=np.float32), "v": np.eye(8, dtype=np.float32), "zero": np.zeros(1, np.float32)}
    model = make_model(nodes, {"x": ("n", 4)}, {"y": ("n", 8)}, constants)
    ranges = {"x": seen(0.03), "t": TensorRange(0, 0, 0, 9), "both": seen(0.03)}
    found = scales(planned(model, ranges, selection=Selection(op_types_to_quantize=("*", "Concat"))))
    assert found["t"] == found["both"] == np.float32(0.03 / 127)


INT8 = QuantScheme(formats.get("int8"), PerTensor())


@given(st.lists(st.tuples(st.none() | st.integers(0, 2), st.floats(2.0**-20, 2.0**20, width=32)), max_size=8))
def test_each_member_gets_the_largest_scale_of_its_group_and_others_keep_theirs(
    members: list[tuple[int | None, float]],
) -> None:
    entries, placements = [], []
    for number, (group, scale) in enumerate(members):
        slot = Slot((), f"t{number}")
        entries.append(ProposedSlot(slot, "activation", INT8, "", range_group=group))
        placements.append(Placement(slot, QuantParams(INT8, np.float32(scale).reshape(())), f"r{number}"))
    found = share_scales(entries, iter(placements), lambda number: members[number][1])
    assert [(each.slot, each.reason) for each in found] == [(each.slot, each.reason) for each in placements]
    for (group, scale), each in zip(members, found, strict=True):
        shared = [other for number, other in members if number == group]
        assert float(each.params.scale) == (scale if group is None else max(shared))


@pytest.mark.parametrize(("channels", "factor", "is_half"), [(4, 1.0, True), (1, 1e-4, True), (4, 1e-3, False)])
def test_a_weight_too_small_for_float16_scales_keeps_float32(channels: int, factor: float, is_half: bool) -> None:
    """One tiny channel beside others costs nothing that counts, and gets the smallest scale."""
    model = conv_model()
    weight = onnx.numpy_helper.to_array(model.graph.initializer[0]).copy()
    weight[:channels] *= factor
    model.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(weight, "w"))
    found = planned(model, {"x": seen(3.0), "r": seen(5.0)}, high_precision=HighPrecision.FP16)
    scale = scales(found)["w"]
    rounded = scale.astype(np.float16).astype(np.float32)
    assert np.array_equal(rounded, scale) is is_half
    wanted = np.abs(weight[0]).max() / 127
    assert scale[0] == pytest.approx(max(wanted, 2.0**-14) if is_half else wanted, rel=1e-3)
