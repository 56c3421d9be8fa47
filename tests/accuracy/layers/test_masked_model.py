"""A masked model computes what the model with any part of the plan computes, bit for bit.

The oracle is `apply_plan` of that part of the plan. Values are integers and scales powers of two: so every float sum is
exact, whatever kernels ONNX Runtime chooses for a stored and for a fed weight.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from support.qdq import text_model
from support.small import make_model

from qdqtool.accuracy.layers.masked_model import MaskedModel, Setting, SwitchedBias, mask_model, with_alternatives
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.io.load import load_model
from qdqtool.models.graph.io.offload import offloaded
from qdqtool.models.graph.io.save import save_model
from qdqtool.models.graph.model import Model
from qdqtool.models.options import ExternalData
from qdqtool.models.payload import Payload
from qdqtool.models.plan import Placement, QuantPlan, Slot, UseRef
from qdqtool.models.running.own_evaluator import open_session
from qdqtool.models.running.own_support import plan_split
from qdqtool.numerics import formats
from qdqtool.numerics.granularity import Blocked, Granularity, PerAxis, PerTensor
from qdqtool.numerics.packing import pack
from qdqtool.numerics.scheme import QuantParams, QuantScheme
from qdqtool.quantization.insertion.apply_plan import apply_plan
from qdqtool.quantization.preparation.bias_correction import Means, correct_biases, switched_biases

Arrays = Mapping[str, np.ndarray]


@dataclass
class Case:
    """A float model, a plan for it, one sample, and the means that correct its biases."""

    proto: onnx.ModelProto
    plan: list[Placement]
    feeds: dict[str, np.ndarray]
    means: Means = field(default_factory=dict)


def whole(*shape: int, high: int = 8, seed: int = 0) -> np.ndarray:
    """Integers from -high to high."""
    return np.random.default_rng(seed).integers(-high, high + 1, shape).astype(np.float32)


def pair(
    tensor: str,
    scale: object,
    *readers: str,
    index: int = 0,
    number_format: str = "int8",
    granularity: Granularity | None = None,
    scope: tuple[str, ...] = (),
    codes: Payload | None = None,
) -> Placement:
    """A pair on input ``index`` of the nodes that make the tensors ``readers`` of the same scope; of all, if none."""
    scheme = QuantScheme(formats.get(number_format), granularity or PerTensor())
    uses = tuple(UseRef(scope, (reader,), index) for reader in readers) or None
    stored = np.asarray(scale)
    params = QuantParams(scheme, stored if stored.dtype.itemsize == 2 else stored.astype(np.float32))
    return Placement(Slot(scope, tensor, uses), params, "a test", codes)


def two_level(tensor: str, scale: np.ndarray, axis: int, *readers: str, index: int = 0) -> Placement:
    """A pair in nvfp4: blocks of 16 with fp8 scales that have a scale of 1/4."""
    of_scales = QuantScheme(formats.get("float8e4m3fn"), PerTensor())
    scheme = QuantScheme(formats.get("float4e2m1"), Blocked(axis, 16), scale_scheme=of_scales)
    params = QuantParams(scheme, scale, scale_params=QuantParams(of_scales, np.float32(0.25)))
    return Placement(Slot((), tensor, tuple(UseRef((), (reader,), index) for reader in readers)), params, "a test")


def convolutions() -> Case:
    """Conv with a bias, Conv without, a residual Add, and an input that is quantized directly."""
    weights = {"w": whole(4, 3, 3, 3), "b": whole(4, seed=1), "v": whole(4, 4, 1, 1, seed=2)}
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("Conv", ["r", "v"], ["d"]),
        helper.make_node("Add", ["d", "r"], ["s"]),
        helper.make_node("Relu", ["s"], ["y"]),
    ]
    plan = [
        pair("x", 4, "c"),
        pair("w", [1, 2, 4, 2], "c", index=1, granularity=PerAxis(0)),
        pair("r", 16, "d"),
        pair("v", [2, 4, 8, 4], "d", index=1, granularity=PerAxis(0)),
        pair("d", 64, "s"),
        pair("r", 8, "s", index=1),
    ]
    means = {((), "x"): np.array([0.5, -1, 2]), ((), "r"): np.array([1, 0.25, 3, 0])}
    model = make_model(nodes, {"x": (1, 3, 6, 6)}, {"y": (1, 4, 6, 6)}, weights)
    return Case(model, plan, {"x": whole(1, 3, 6, 6, high=40, seed=3)}, means)


def products(opset: int = 17) -> Case:
    """MatMul with an Add behind it, and Gemms with a bias and without; the biases of both Gemms are corrected."""
    weights = {"w": whole(8, 6), "b": whole(6, seed=1), "v": whole(6, 5, seed=2), "c": whole(5, seed=3)}
    weights["u"] = whole(5, 5, seed=4)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["m"]),
        helper.make_node("Add", ["m", "b"], ["a"]),
        helper.make_node("Relu", ["a"], ["r"]),
        helper.make_node("Gemm", ["r", "v", "c"], ["g"]),
        helper.make_node("Gemm", ["g", "u"], ["y"]),
    ]
    plan = [
        pair("x", 2, "m"),
        pair("w", np.exp2(np.arange(6) % 3), "m", index=1, granularity=PerAxis(1)),
        pair("r", 8, "g"),
        pair("v", [1, 2, 4, 2, 4], "g", index=1, granularity=PerAxis(1)),
        pair("g", 32, "y"),
        pair("u", 4, "y", index=1),
    ]
    means = {((), "x"): whole(8, seed=5) / 4, ((), "r"): whole(6, seed=6) / 2, ((), "g"): whole(5, seed=7) / 2}
    model = make_model(nodes, {"x": (4, 8)}, {"y": (4, 5)}, weights, opset=opset)
    return Case(model, plan, {"x": whole(4, 8, high=20, seed=8)}, means)


def graph_output() -> Case:
    """A tensor that is a graph output and is read as well: the pair serves both."""
    nodes = [helper.make_node("MatMul", ["x", "w"], ["m"]), helper.make_node("Relu", ["m"], ["r"])]
    plan = [pair("m", 16), pair("w", 2, "m", index=1)]
    model = make_model(nodes, {"x": (4, 8)}, {"m": (4, 6), "r": (4, 6)}, {"w": whole(8, 6)})
    return Case(model, plan, {"x": whole(4, 8, seed=1)})


def constant_output() -> Case:
    """A weight that is also an output of the model: it stays float there, so it is not stored as codes."""
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    plan = [pair("x", 4, "y"), pair("w", 4, "y", index=1)]
    model = make_model(nodes, {"x": (4, 8)}, {"y": (4, 6), "w": (8, 6)}, {"w": whole(8, 6)})
    return Case(model, plan, {"x": whole(4, 8, seed=1)})


def branches(*, taken: bool) -> Case:
    """Pairs on activations and weights of both branches of an If."""
    model = text_model("""
        <ir_version: 8, opset_import: ["": 17]>
        g (float[4,4] x, bool cond) => (float[4,4] y) <float two = {2}> {
            y = If (cond) <
                then_branch = a () => (float[4,4] a_y) { a_twice = Mul (x, two)  a_y = MatMul (a_twice, a_w) },
                else_branch = b () => (float[4,4] b_y) { b_twice = Mul (x, two)  b_y = MatMul (b_twice, b_w) }
            >
        }
    """).proto
    bodies = {attribute.name: attribute.g for attribute in model.graph.node[0].attribute}
    plan = []
    for seed, (name, branch) in enumerate((("a", "then_branch"), ("b", "else_branch"))):
        bodies[branch].initializer.append(numpy_helper.from_array(whole(4, 4, seed=seed), f"{name}_w"))
        plan.append(pair(f"{name}_twice", 4, f"{name}_y", scope=(f"y.{branch}",)))
        plan.append(pair(f"{name}_w", 4, f"{name}_y", index=1, scope=(f"y.{branch}",)))
    return Case(model, plan, {"x": whole(4, 4, seed=2), "cond": np.array(taken)})


def loop() -> Case:
    """Pairs in the body of a Loop, and on a weight of the main graph that the body reads."""
    model = text_model("""
        <ir_version: 8, opset_import: ["": 17]>
        g (float[4,4] x) => (float[4,4] y) <int64 count = {2}> {
            y = Loop (count, , x) <
                body = body (int64 number, bool go, float[4,4] state) => (bool again, float[4,4] next)
                <float eight = {8}> {
                    product = MatMul (state, w)  next = Div (product, eight)  again = Identity (go)
                }
            >
        }
    """).proto
    model.graph.initializer.append(numpy_helper.from_array(whole(4, 4, seed=1), "w"))
    inside = UseRef(("y.body",), ("product",), 1)
    weight = replace(pair("w", 4), slot=Slot((), "w", (inside,)))
    return Case(model, [pair("state", 2, "product", scope=("y.body",)), weight], {"x": whole(4, 4)})


def shared_weight() -> Case:
    """One placement of a weight that two nodes read, and a third one that reads it in float."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"]),
        helper.make_node("Relu", ["a"], ["r"]),
        helper.make_node("MatMul", ["r", "w"], ["b"]),
        helper.make_node("MatMul", ["b", "w"], ["y"]),
    ]
    both = (UseRef((), ("a",), 1), UseRef((), ("b",), 1))
    plan = [replace(pair("w", 4), slot=Slot((), "w", both)), pair("r", 4, "b")]
    return Case(make_model(nodes, {"x": (4, 4)}, {"y": (4, 4)}, {"w": whole(4, 4)}), plan, {"x": whole(4, 4, seed=1)})


def shared_bias() -> Case:
    """Two Convs with one stored bias, which is corrected for each by itself."""
    weights = {"w": whole(4, 4, 1, 1), "v": whole(4, 4, 1, 1, seed=1), "b": whole(4, seed=2)}
    nodes = [helper.make_node("Conv", ["x", "w", "b"], ["c"]), helper.make_node("Conv", ["c", "v", "b"], ["y"])]
    plan = [pair("w", 4, "c", index=1), pair("v", 8, "y", index=1)]
    means = {((), "x"): np.array([1, 2, 0.5, -1]), ((), "c"): np.array([3, -0.5, 2, 1])}
    model = make_model(nodes, {"x": (1, 4, 3, 3)}, {"y": (1, 4, 3, 3)}, weights)
    return Case(model, plan, {"x": whole(1, 4, 3, 3, seed=3)}, means)


def folded_weight() -> Case:
    """A weight that is made from the stored one by a Transpose."""
    nodes = [helper.make_node("Transpose", ["w"], ["t"]), helper.make_node("MatMul", ["x", "t"], ["y"])]
    plan = [pair("x", 2, "y"), pair("t", [1, 2, 4, 8, 2, 4], "y", index=1, granularity=PerAxis(1))]
    return Case(make_model(nodes, {"x": (4, 8)}, {"y": (4, 6)}, {"w": whole(6, 8)}), plan, {"x": whole(4, 8, seed=1)})


def in_fp8(opset: int = 13) -> Case:
    case = products(opset)
    plan = [replace(each, params=_as_fp8(each.params)) for each in case.plan]
    return replace(case, plan=plan)


def _as_fp8(params: QuantParams) -> QuantParams:
    return replace(params, scheme=replace(params.scheme, format=formats.get("float8e4m3fn")))


def in_float16() -> Case:
    """Weights, activations and scales in float16; values are small enough to stay exact."""
    nodes = [helper.make_node("MatMul", ["x", "w"], ["m"]), helper.make_node("Relu", ["m"], ["y"])]
    half = np.float16
    plan = [
        pair("x", half(2), "m"),
        pair("w", half([1, 2, 4, 2, 1, 4]), "m", index=1, granularity=PerAxis(1)),
        pair("m", half(8), "y"),
    ]
    model = make_model(
        nodes, {"x": (4, 8)}, {"y": (4, 6)}, {"w": whole(8, 6).astype(half)}, elem_type=TensorProto.FLOAT16
    )
    return Case(model, plan, {"x": whole(4, 8, seed=1).astype(half)})


def in_bfloat16() -> Case:
    """Weights and scales in bfloat16 between two Casts; activations are quantized in float32 and in bfloat16."""
    nodes = [
        helper.make_node("Cast", ["x"], ["n"], to=TensorProto.BFLOAT16),
        helper.make_node("MatMul", ["n", "w"], ["m"]),
        helper.make_node("Cast", ["m"], ["y"], to=TensorProto.FLOAT),
    ]
    brain = ml_dtypes.bfloat16
    plan = [
        pair("x", 2, "n"),
        pair("n", np.asarray(4, brain), "m"),
        pair("w", np.array([1, 2, 4, 2, 1, 4], brain), "m", index=1, granularity=PerAxis(1)),
    ]
    weight = numpy_helper.from_array(whole(8, 6, high=4).astype(brain), "w")
    model = make_model(nodes, {"x": (4, 8)}, {"y": (4, 6)}, {}, opset=22, ir_version=10)
    model.graph.initializer.append(weight)
    return Case(model, plan, {"x": whole(4, 8, high=4, seed=1)})


def bfloat16_with_a_bias() -> Case:
    """A Gemm of bfloat16 whose bias is corrected."""
    nodes = [
        helper.make_node("Cast", ["x"], ["n"], to=TensorProto.BFLOAT16),
        helper.make_node("Gemm", ["n", "w", "b"], ["m"]),
        helper.make_node("Cast", ["m"], ["y"], to=TensorProto.FLOAT),
    ]
    brain = ml_dtypes.bfloat16
    plan = [pair("w", np.array([1, 2, 4, 2, 1, 4], brain), "m", index=1, granularity=PerAxis(1))]
    model = make_model(nodes, {"x": (4, 8)}, {"y": (4, 6)}, {}, opset=22, ir_version=10)
    stored = {"w": whole(8, 6, high=4).astype(brain), "b": whole(6, seed=2).astype(brain)}
    model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in stored.items())
    return Case(model, plan, {"x": whole(4, 8, high=4, seed=1)}, {((), "n"): whole(8, high=3)})


def bfloat16_behind_a_cast() -> Case:
    """Once the pair is gone, ONNX Runtime runs this model alone, and takes no bfloat16 from NumPy."""
    nodes = [
        helper.make_node("Cast", ["w"], ["wide"], to=TensorProto.FLOAT),
        helper.make_node("MatMul", ["x", "wide"], ["y"]),
    ]
    brain = ml_dtypes.bfloat16
    plan = [pair("w", np.array([1, 2, 4, 2, 1, 4], brain), "wide", granularity=PerAxis(1))]
    model = make_model(nodes, {"x": (4, 8)}, {"y": (4, 6)}, {}, opset=22, ir_version=10)
    model.graph.initializer.append(numpy_helper.from_array(whole(8, 6).astype(brain), "w"))
    return Case(model, plan, {"x": whole(4, 8, seed=1)})


def scalar_constant() -> Case:
    """A constant without axes, which stays one."""
    nodes = [helper.make_node("Mul", ["x", "s"], ["p"]), helper.make_node("Expand", ["s", "shape"], ["e"])]
    plan = [pair("s", 2, "p", index=1), replace(pair("s", 4), slot=Slot((), "s", (UseRef((), ("e",), 0),)))]
    weights = {"s": np.float32(5).reshape(()), "shape": np.array([], np.int64)}
    return Case(make_model(nodes, {"x": (4,)}, {"p": (4,), "e": ()}, weights), plan, {"x": whole(4)})


def in_blocks() -> Case:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    scale = np.exp2(np.random.default_rng(1).integers(0, 3, (2, 6))).astype(np.float32)
    plan = [pair("w", scale, "y", index=1, number_format="int4", granularity=Blocked(0, 16)), pair("x", 2, "y")]
    model = make_model(nodes, {"x": (4, 32)}, {"y": (4, 6)}, {"w": whole(32, 6)}, opset=21, ir_version=10)
    return Case(model, plan, {"x": whole(4, 32, seed=2)})


def in_nvfp4() -> Case:
    """Weight and activation in nvfp4, which ONNX Runtime has no kernels for."""
    nodes = [helper.make_node("Relu", ["x"], ["r"]), helper.make_node("MatMul", ["r", "w"], ["y"])]
    powers = np.random.default_rng(1)
    plan = [
        two_level("r", np.exp2(powers.integers(0, 3, (4, 2))).astype(np.float32), 1, "y"),
        two_level("w", np.exp2(powers.integers(0, 3, (2, 6))).astype(np.float32), 0, "y", index=1),
    ]
    model = make_model(nodes, {"x": (4, 32)}, {"y": (4, 6)}, {"w": whole(32, 6)}, opset=23, ir_version=11)
    return Case(model, plan, {"x": whole(4, 32, seed=2)})


def in_mxfp8() -> Case:
    """An activation whose scales have a type of their own, float8e8m0."""
    scheme = QuantScheme(
        formats.get("float8e4m3fn"), Blocked(1, 32), scale_scheme=QuantScheme(formats.get("float8e8m0"), PerTensor())
    )
    scale = np.exp2(np.random.default_rng(1).integers(-3, 3, (4, 1))).astype(ml_dtypes.float8_e8m0fnu)
    plan = [Placement(Slot((), "r", (UseRef((), ("y",), 0),)), QuantParams(scheme, scale), "a test")]
    nodes = [helper.make_node("Relu", ["x"], ["r"]), helper.make_node("MatMul", ["r", "w"], ["y"])]
    model = make_model(nodes, {"x": (4, 32)}, {"y": (4, 6)}, {"w": whole(32, 6)}, opset=24, ir_version=11)
    return Case(model, plan, {"x": whole(4, 32, high=100, seed=2)})


def with_codes() -> Case:
    """Codes that an algorithm chose, and not the nearest ones."""
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    codes = pack(whole(8, 6, high=7, seed=5).astype(ml_dtypes.int4), formats.get("int4")).tobytes()
    scale = np.array([1, 2, 4, 2, 1, 4])
    plan = [
        pair(
            "w",
            scale,
            "y",
            index=1,
            number_format="int4",
            granularity=PerAxis(1),
            codes=Payload(len(codes), lambda: codes),
        )
    ]
    model = make_model(nodes, {"x": (4, 8)}, {"y": (4, 6)}, {"w": whole(8, 6)}, opset=21, ir_version=10)
    return Case(model, plan, {"x": whole(4, 8, seed=1)})


def taken_names() -> Case:
    """A model whose tensors have the names that switches would get."""
    nodes = [
        helper.make_node("Relu", ["x"], ["m_DequantizeLinear_Output"]),
        helper.make_node("MatMul", ["m_DequantizeLinear_Output", "w"], ["m_DequantizeLinear_Output_mask_switched"]),
        helper.make_node("Abs", ["m_DequantizeLinear_Output_mask_switched"], ["m"]),
        helper.make_node("Relu", ["m"], ["m_DequantizeLinear_Output_1_always"]),
        helper.make_node("MatMul", ["m_DequantizeLinear_Output_1_always", "w_switched"], ["m_scale_switched"]),
        helper.make_node("Relu", ["m_scale_switched"], ["m_mask"]),
    ]
    plan = [
        pair("x", 2, "m_DequantizeLinear_Output"),
        pair("w", 4, "m_DequantizeLinear_Output_mask_switched", index=1),
        pair("m", 16, "m_DequantizeLinear_Output_1_always"),
        pair("w_switched", 4, "m_scale_switched", index=1),
        pair("m_scale_switched", 64, "m_mask"),
    ]
    weights = {"w": whole(8, 8), "w_switched": whole(8, 6, seed=1)}
    model = make_model(nodes, {"x": (4, 8)}, {"m_mask": (4, 6)}, weights)
    return Case(model, plan, {"x": whole(4, 8, seed=2)})


def old_ir() -> Case:
    """IR version 3: every initializer is an input of the graph too."""
    case = products(opset=11)
    case.proto.ir_version = 3
    for tensor in case.proto.graph.initializer:
        case.proto.graph.input.append(helper.make_tensor_value_info(tensor.name, TensorProto.FLOAT, tensor.dims))
    return case


CASES: dict[str, Callable[[], Case]] = {
    "convolutions": convolutions,
    "products": products,
    "graph output": graph_output,
    "constant output": constant_output,
    "then branch": lambda: branches(taken=True),
    "else branch": lambda: branches(taken=False),
    "loop": loop,
    "shared weight": shared_weight,
    "shared bias": shared_bias,
    "folded weight": folded_weight,
    "opset 11 is raised": lambda: products(11),
    "opset 13 is raised for fp8": in_fp8,
    "old ir version": old_ir,
    "float16": in_float16,
    "bfloat16": in_bfloat16,
    "bfloat16 with a bias": bfloat16_with_a_bias,
    "bfloat16 behind a Cast": bfloat16_behind_a_cast,
    "scalar constant": scalar_constant,
    "int4 in blocks": in_blocks,
    "nvfp4": in_nvfp4,
    "mxfp8": in_mxfp8,
    "chosen codes": with_codes,
    "taken names": taken_names,
}


def outputs(model: Model, feeds: Arrays) -> dict[str, np.ndarray]:
    with open_session(model, plan_split(ModelIndex.of(model))) as session:
        return session.run(feeds)


def quantized(case: Case, plan: Sequence[Placement], source: Model | None = None) -> dict[str, np.ndarray]:
    """What the float model with these pairs and corrected biases computes."""
    source = source or Model(case.proto)
    made = apply_plan(source, QuantPlan(tuple(plan))).model if plan else source
    corrected = correct_biases(made, ModelIndex.of(source), QuantPlan(tuple(plan)), case.means).model
    return outputs(corrected, case.feeds)


def masked_of(case: Case, source: Model | None = None) -> MaskedModel:
    source, plan = source or Model(case.proto), QuantPlan(tuple(case.plan))
    return mask_model(source, plan, switched_biases(ModelIndex.of(source), plan, case.means))


def only(masked: MaskedModel, kept: Sequence[int]) -> Setting:
    return {number: None for number in masked.all_float if number not in kept}


def require_equal(found: Arrays, expected: Arrays) -> None:
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        assert np.asarray(array).dtype == np.asarray(found[name]).dtype
        np.testing.assert_array_equal(found[name], array, err_msg=name)


@pytest.mark.parametrize("name", CASES)
def test_any_part_of_the_plan_computes_what_the_quantized_model_does(name):
    case = CASES[name]()
    masked = masked_of(case)
    rng, count = np.random.default_rng(len(name)), len(case.plan)
    parts = [[], list(range(count)), *([number] for number in range(count))]
    parts += [sorted(rng.permutation(count)[: rng.integers(1, count + 1)].tolist()) for _ in range(3)]
    with open_session(masked.model, plan_split(ModelIndex.of(masked.model))) as session:
        for part in parts:
            found = session.run({**case.feeds, **masked.feeds(only(masked, part))})
            require_equal(found, quantized(case, [case.plan[number] for number in part]))


@pytest.mark.parametrize("name", CASES)
def test_the_plan_changes_the_outputs(name):
    """Else the test above would compare nothing."""
    case = CASES[name]()
    before, after = quantized(case, []), quantized(case, case.plan)
    assert any(not np.array_equal(before[output], after[output]) for output in before)


@pytest.mark.parametrize("name", CASES)
def test_the_masked_model_is_valid_and_stores_no_weight_scale_or_bias_that_is_fed(name):
    case = CASES[name]()
    masked = masked_of(case)
    proto = masked.model.proto
    read = {name for graph in _graphs(proto.graph) for node in graph.node for name in node.input}
    read |= {output.name for output in proto.graph.output}
    fed = masked.feeds({})
    assert fed.keys() <= {value.name for value in proto.graph.input}
    stored = {tensor.name for graph in _graphs(proto.graph) for tensor in graph.initializer}
    assert stored <= read
    made = {name for graph in _graphs(proto.graph) for node in graph.node for name in node.output}
    ends = {value.name for graph in _graphs(proto.graph) for value in graph.output}
    assert made <= read | ends


def _graphs(graph: onnx.GraphProto) -> list[onnx.GraphProto]:
    inner = [attribute.g for node in graph.node for attribute in node.attribute if attribute.HasField("g")]
    return [graph, *(each for body in inner for each in _graphs(body))]


def test_all_switches_off_is_one_setting_of_every_pair():
    masked = masked_of(convolutions())
    assert masked.all_float == dict.fromkeys(range(6))
    fed = masked.feeds(masked.all_float)
    assert [bool(fed[site.mask]) for site in masked.sites if site.mask] == [False] * 4
    for site in masked.sites:
        if site.constant is not None:
            np.testing.assert_array_equal(fed[site.weight], site.constant)


@pytest.mark.parametrize("name", ["convolutions", "graph output", "loop", "opset 13 is raised for fp8", "float16"])
def test_another_scale_is_the_plan_with_that_scale(name):
    case = CASES[name]()
    masked = masked_of(case)
    with open_session(masked.model, plan_split(ModelIndex.of(masked.model))) as session:
        for number, site in enumerate(masked.sites):
            if site.scale:
                params = site.placement.params
                wider = replace(params, scale=params.scale * params.scale.dtype.type(4))
                other = replace(site.placement, params=wider)
                found = session.run({**case.feeds, **masked.feeds({number: other})})
                plan = [*case.plan[:number], other, *case.plan[number + 1 :]]
                require_equal(found, quantized(case, plan))


@pytest.mark.parametrize("name", ["convolutions", "products", "shared weight", "folded weight", "bfloat16 with a bias"])
def test_another_placement_of_a_weight_is_the_plan_with_it_bias_included(name):
    case = CASES[name]()
    masked = masked_of(case)
    with open_session(masked.model, plan_split(ModelIndex.of(masked.model))) as session:
        for number, placement in enumerate(case.plan):
            if masked.sites[number].constant is not None:
                scale = placement.params.scale * placement.params.scale.dtype.type(2)
                other = replace(placement, params=replace(placement.params, scale=scale))
                # The plan's own weight is fed before and after: neither may be taken for the other.
                for setting in ({}, {number: other}, {}):
                    found = session.run({**case.feeds, **masked.feeds(setting)})
                    plan = [*case.plan[:number], setting.get(number, placement), *case.plan[number + 1 :]]
                    require_equal(found, quantized(case, plan))


def in_another_format(placement: Placement, number_format: str) -> Placement:
    """The pair with twice the scale in another format."""
    params = placement.params
    scheme = replace(params.scheme, format=formats.get(number_format))
    return replace(placement, params=replace(params, scheme=scheme, scale=params.scale * params.scale.dtype.type(2)))


@pytest.mark.parametrize("number_format", ["float8e4m3fn", "int16"])
@pytest.mark.parametrize(
    "name",
    [
        "convolutions",
        "products",
        "graph output",
        "then branch",
        "loop",
        "shared weight",
        "opset 11 is raised",
        "float16",
    ],
)
def test_pairs_of_two_formats_side_by_side_are_the_plan_with_both(name, number_format):
    case = CASES[name]()
    others = {number: in_another_format(each, number_format) for number, each in enumerate(case.plan)}
    masked = with_alternatives(masked_of(case), others)
    rng, count = np.random.default_rng(len(name)), len(case.plan)
    levels = [
        [0] * count,
        [1] * count,
        [2] * count,
        *([2 * (at == one) for at in range(count)] for one in range(count)),
    ]
    levels += [rng.integers(0, 3, count).tolist() for _ in range(4)]
    with open_session(masked.model, plan_split(ModelIndex.of(masked.model))) as session:
        for chosen in levels:
            pairs = [[None, case.plan[at], others[at]][level] for at, level in enumerate(chosen)]
            found = session.run({**case.feeds, **masked.feeds(dict(enumerate(pairs)))})
            require_equal(found, quantized(case, [each for each in pairs if each is not None]))


def test_the_second_format_changes_the_outputs():
    """Else the test above would compare nothing."""
    case = products()
    one = quantized(case, case.plan)
    other = quantized(case, [in_another_format(each, "float8e4m3fn") for each in case.plan])
    assert not np.array_equal(one["y"], other["y"])


def test_another_format_of_constants_alone_leaves_the_model_as_it_is():
    masked = masked_of(products())
    constants = {at: site.placement for at, site in enumerate(masked.sites) if site.constant is not None}
    assert with_alternatives(masked, constants) is masked


def test_other_codes_are_the_plan_with_them():
    case = with_codes()
    masked, (placement,) = masked_of(case), case.plan
    other = replace(placement, codes=None)
    found = outputs(masked.model, {**case.feeds, **masked.feeds({0: other})})
    require_equal(found, quantized(case, [other]))


@pytest.mark.parametrize("name", ["bfloat16", "nvfp4", "mxfp8"])
def test_scales_that_are_no_float32_or_float16_stay_in_the_model(name):
    masked = masked_of(CASES[name]())
    fixed = [site for site in masked.sites if site.mask and not site.scale]
    assert [site.placement.params.scale.dtype == np.float32 for site in fixed] == [name == "nvfp4"]


@pytest.mark.parametrize("how", ["external", "spilled"])
def test_weights_that_are_not_in_the_model_file_are_read(how, tmp_path):
    nodes = [helper.make_node("MatMul", ["x", "w"], ["m"]), helper.make_node("Gemm", ["m", "v", "b"], ["y"])]
    weights = {"w": whole(64, 64), "v": whole(64, 64, high=2, seed=1), "b": whole(64, seed=2)}
    proto = make_model(nodes, {"x": (2, 64)}, {"y": (2, 64)}, weights)
    plan = [pair("w", 4, "m", index=1), pair("m", 64, "y"), pair("v", 2, "y", index=1)]
    case = Case(proto, plan, {"x": whole(2, 64, high=2, seed=3)}, {((), "m"): whole(64, seed=4)})
    source = offloaded(Model(proto)) if how == "spilled" else _with_external_data(proto, tmp_path)
    assert not any(tensor.raw_data for tensor in source.proto.graph.initializer if tensor.name in ("w", "v"))
    masked = masked_of(case, source)
    for part in ([], [0, 1, 2], [1], [0, 2]):
        found = outputs(masked.model, {**case.feeds, **masked.feeds(only(masked, part))})
        require_equal(found, quantized(case, [plan[number] for number in part]))


def _with_external_data(proto: onnx.ModelProto, folder: Path) -> Model:
    return load_model(save_model(Model(proto), folder / "m.onnx", external_data=ExternalData.ALWAYS).model)


@pytest.mark.parametrize("name", ["convolutions", "opset 11 is raised", "then branch"])
def test_the_float_model_stays_as_it_is(name):
    case = CASES[name]()
    before = case.proto.SerializeToString(deterministic=True)
    masked_of(case)
    assert case.proto.SerializeToString(deterministic=True) == before


def test_a_bias_whose_node_is_gone_is_left_out():
    """Raising the opset may replace a node."""
    case = products()
    gone = SwitchedBias(1, (), ("gone",), 2, np.zeros(6, np.float32), lambda _: np.zeros(6))
    masked = mask_model(Model(case.proto), QuantPlan(tuple(case.plan)), [gone])
    assert masked.biases == {}
    without = replace(case, means={})
    require_equal(outputs(masked.model, {**case.feeds, **masked.feeds({})}), quantized(without, case.plan))


def test_a_weight_is_quantized_once_for_each_placement():
    masked = masked_of(convolutions())
    one, two = masked.feeds({}), masked.feeds({})
    weights = [site.weight for site in masked.sites if site.constant is not None]
    assert [one[name] is two[name] for name in (*weights, *masked.biases)] == [True] * 4
