"""Planners: one type, chosen by what there is to plan from; scales and codes of weights, and what is refused."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper, parser
from support.layer_dump import kernels_of
from support.refusals import refused
from support.small import conv_model, make_model, matmul_model, nodes_of

from qdqtool.errors import ArgumentError, ModelError, UsageError
from qdqtool.jobs.check import check_model
from qdqtool.jobs.insert import insert_plan
from qdqtool.jobs.quantize import QuantizeOptions, quantize_model
from qdqtool.jobs.strip import strip_model
from qdqtool.jobs.validate import validate_model
from qdqtool.models import targets
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.model import Model
from qdqtool.models.options import WeightStorage
from qdqtool.models.plan import QuantPlan, Slot, UseRef
from qdqtool.models.targets import refusals
from qdqtool.numerics import formats
from qdqtool.numerics.affine import dequantize, quantize
from qdqtool.numerics.gptq import round_weights
from qdqtool.numerics.granularity import Blocked, PerAxis
from qdqtool.numerics.packing import pack
from qdqtool.numerics.scheme import QuantParams, QuantScheme
from qdqtool.quantization.planning.placement import Selection
from qdqtool.quantization.planning.plan_file import SCALES_ONLY
from qdqtool.quantization.planning.planner import Planned, Planner, index_to_plan
from qdqtool.quantization.planning.planners import PlanData, WeightPlanner, planner_for, separated
from qdqtool.quantization.planning.range_planner import RangePlanner
from qdqtool.quantization.planning.recipe import Recipe
from qdqtool.quantization.ranges.types import CalibrationRecord, Ranges, TensorRange
from qdqtool.samples.feeds import Feeds
from qdqtool.samples.report import DataDescription
from qdqtool.samples.request import FileData


def ranges(**largest: float) -> Ranges:
    record = CalibrationRecord(
        method="max", samples=1, random=True, seed=0, data_sha256="", model_sha256="", preparation=()
    )
    return Ranges(record, {((), name): TensorRange(-amax, amax, amax, 1) for name, amax in largest.items()})


def constants(plan: QuantPlan) -> dict[str, tuple[str, list[float]]]:
    return {each.slot.tensor: (each.params.scheme.format.name, np.ravel(each.params.scale).tolist()) for each in plan}


def test_the_planner_follows_from_what_the_mode_needs():
    assert isinstance(planner_for(Recipe(), PlanData(ranges=ranges(x=1.0))), RangePlanner)
    weights = Recipe(quantize_mode="int4")
    assert planner_for(weights, PlanData()) == WeightPlanner(weights)
    assert planner_for(weights, PlanData(stored=False)) == WeightPlanner(weights, stored=False)


def test_weights_are_stored_as_codes_unless_the_user_says_otherwise():
    """Only then may scales be negative."""
    index, recipe = index_to_plan(Model(matmul_model(inner=32))), Recipe(quantize_mode="int4", target="tensorrt-rtx")
    for stored, planner in [(True, WeightPlanner(recipe)), (False, WeightPlanner(recipe, stored=False))]:
        (placement,) = planner.plan(index).plan
        assert (placement.params.scale.min() < 0) == stored


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda model: setattr(model.opset_import[0], "version", 999), "the model imports opset 999"),
        (lambda model: model.graph.node[0].input.__setitem__(0, "y"), "'y'"),
    ],
    ids=["opset", "cycle"],
)
def test_a_model_of_an_unknown_opset_or_that_is_no_graph_is_not_planned_for(change, message):
    model = matmul_model()
    change(model)
    with pytest.raises(ModelError) as caught:
        index_to_plan(Model(model))
    assert message in caught.value.message


def test_one_planner_makes_plans_of_several_models():
    """What it returned for one model has nothing of another."""
    planner: Planner = planner_for(Recipe(quantize_mode="int8-weight-only"), PlanData())
    convolution, product = index_to_plan(Model(conv_model())), index_to_plan(Model(matmul_model()))
    first, other, again = planner.plan(convolution), planner.plan(product), planner.plan(convolution)
    assert set(constants(first.plan)) == {"w", "v"}
    assert set(constants(other.plan)) == {"w"}
    assert constants(again.plan) == constants(first.plan)


def test_a_plan_of_ranges_says_what_has_none():
    planned = planner_for(Recipe(method="max"), PlanData(ranges=ranges(x=2.54, r=0.0))).plan(
        index_to_plan(Model(conv_model()))
    )
    assert isinstance(planned, Planned)
    assert constants(planned.plan)["x"] == ("int8", [np.float32(2.54 / 127)])
    assert [(each.tensor, each.condition) for each in planned.degenerate] == [("r", "zeros")]
    assert planned.skipped == ()
    assert (planned.given, planned.rounded_by_data) == (None, 0)


TYPES = {TensorProto.FLOAT: np.float32, TensorProto.FLOAT16: np.float16}
CHANNELS, OUTPUTS = 256, 64


def stored(op: str, onnx_type: int, block: int, code: str = "int4", sign: float = -1.0) -> onnx.ModelProto:
    """A product whose weight is codes behind a DQ with block scales, all of one sign."""
    rng, fmt = np.random.default_rng(4), formats.get(code)
    codes = rng.integers(int(fmt.low), int(fmt.high) + 1, (CHANNELS, OUTPUTS)).astype(fmt.dtype)
    scale = (sign * rng.uniform(0.01, 0.02, (CHANNELS // block, OUTPUTS))).astype(TYPES[onnx_type])
    constants = [
        helper.make_tensor("w", fmt.onnx_type, codes.shape, pack(codes, fmt).tobytes(), raw=True),
        numpy_helper.from_array(scale, "s"),
    ]
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "s"], ["d"], "dq", axis=0, block_size=block),
        helper.make_node(op, ["x", "d"], ["y"], "product"),
    ]
    x = helper.make_tensor_value_info("x", onnx_type, [8, CHANNELS])
    y = helper.make_tensor_value_info("y", onnx_type, [8, OUTPUTS])
    graph = helper.make_graph(nodes, "g", [x], [y], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


@pytest.mark.builder
@pytest.mark.parametrize("block", [32, 64, 128])
@pytest.mark.parametrize("onnx_type", TYPES)
@pytest.mark.parametrize("op", ["MatMul", "Gemm"])
def test_rtx_multiplies_int4_blocks_of_either_sign_in_the_same_kernel(oracle, op, onnx_type, block):
    negative, positive = (oracle.judge(stored(op, onnx_type, block, sign=sign)) for sign in (-1, 1))
    assert negative.accepted, negative
    kernels = kernels_of(negative.layers, "product", "LayerType: ")
    assert kernels_of(positive.layers, "product", "LayerType: ") == kernels
    assert len(kernels) == 1
    assert "Datatype: Int4" in kernels[0]


@pytest.mark.builder
@pytest.mark.parametrize(("mode", "format_name"), [("int4", "int4"), ("int8-weight-only", "int8")])
def test_a_shared_weight_is_stored_for_each_use(tmp_path, oracle, mode, format_name):
    """Of two layers with the same weights for two products each: shared, the builder fails (rule QT415)."""
    rng = np.random.default_rng(6)
    weights = {name: rng.normal(size=(64, 64)).astype(np.float32) for name in ("a", "b")}
    nodes = []
    for source, made in (("x", "r"), ("r", "y")):
        nodes += [helper.make_node("MatMul", [source, name], [f"{made}{name}"]) for name in weights]
        nodes += [helper.make_node("Add", [f"{made}a", f"{made}b"], [made])]
    float_model = make_model(nodes, {"x": (8, 64)}, {"y": (8, 64)}, weights)
    onnx.save(float_model, tmp_path / "m.onnx")
    recipe = Recipe(quantize_mode=mode, block_size=32 if mode == "int4" else None)
    report = quantize_model(tmp_path / "m.onnx", None, tmp_path / "q.onnx", QuantizeOptions(recipe=recipe))
    assert [(entry.tensor, entry.format, len(entry.consumers)) for entry in report.quantized] == [
        (name, format_name, 1) for name in ("a", "a", "b", "b")
    ]
    assert oracle.judge(onnx.load(tmp_path / "q.onnx")).accepted


@pytest.mark.builder
def test_rtx_refuses_negative_block_scales_of_int8(oracle):
    verdict = oracle.judge(stored("MatMul", TensorProto.FLOAT, 32, "int8"))
    assert not verdict.accepted
    assert "Scale coefficients must all be positive" in verdict.message


@pytest.mark.parametrize(
    ("target", "code", "found"),
    [
        ("tensorrt-rtx", "int4", []),
        ("ort-cpu", "int4", []),
        ("onnx", "int8", []),
        ("tensorrt", "int4", [("QP101", "refused")]),
        ("tensorrt-10.8", "int4", [("QP101", "refused")]),
        ("tensorrt-rtx", "int8", [("QP101", "refused")]),
    ],
)
def test_the_linter_says_who_takes_them(tmp_path, target, code, found):
    onnx.save(stored("MatMul", TensorProto.FLOAT, 32, code), tmp_path / "m.onnx")
    report = validate_model(tmp_path / "m.onnx", targets=[target])
    faults = [finding for finding in report.models[0].targets[0].findings if finding.code == "QP101"]
    assert [(finding.code, finding.effect) for finding in faults] == found


def test_targets_name_positive_scales_as_the_alternative():
    scheme = QuantScheme(formats.get("int4"), Blocked(0, 32))
    params = QuantParams(scheme, np.full((2, 32), -0.5, np.float32))
    (refusal,) = refusals(targets.get("tensorrt"), params, "float32", (64, 32))
    assert refusal.reason == "takes no negative scales of int4"
    assert refusal.alternative == "positive scales, with codes chosen for them"
    assert list(refusals(targets.get("tensorrt-rtx"), params, "float32", (64, 32))) == []


def product(folder: Path) -> Path:
    rng = np.random.default_rng(6)
    weight = rng.standard_normal((CHANNELS, OUTPUTS)).astype(np.float32)
    node = helper.make_node("MatMul", ["x", "w"], ["y"], "product")
    shapes = {"x": ("batch", CHANNELS)}, {"y": ("batch", OUTPUTS)}
    onnx.save(make_model([node], *shapes, {"w": weight}, opset=21, ir_version=10), folder / "float.onnx")
    np.savez(folder / "data.npz", x=rng.standard_normal((96, CHANNELS)).astype(np.float32))
    return folder / "float.onnx"


def int4(target: str, **rest: object) -> QuantizeOptions:
    return QuantizeOptions(recipe=Recipe(quantize_mode="int4", target=target, block_size=32), **rest)


def constants_of(path: Path) -> list[np.ndarray]:
    """The stored inputs of the first DequantizeLinear: the codes, unless a Q makes them, and the scales."""
    model = onnx.load(path)
    node = next(node for node in model.graph.node if node.op_type == "DequantizeLinear")
    stored = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    return [stored[name] for name in node.input[:2] if name in stored]


def scales_of(path: Path) -> np.ndarray:
    return constants_of(path)[-1]


@pytest.mark.parametrize(("target", "negative"), [("tensorrt", False), ("tensorrt-rtx", True), ("ort-cpu", True)])
def test_quantize_uses_either_sign_where_the_target_takes_it(tmp_path, target, negative):
    quantize_model(product(tmp_path), None, tmp_path / "q.onnx", int4(target))
    assert bool(np.any(scales_of(tmp_path / "q.onnx") < 0)) == negative
    assert check_model(tmp_path / "q.onnx", baseline=tmp_path / "float.onnx").passed


def test_either_sign_is_worth_a_third_of_a_decibel(tmp_path):
    found = {}
    for target in ("tensorrt", "tensorrt-rtx"):
        quantize_model(product(tmp_path), None, tmp_path / f"{target}.onnx", int4(target))
        report = check_model(tmp_path / f"{target}.onnx", baseline=tmp_path / "float.onnx", data=tmp_path / "data.npz")
        found[target] = report.outputs[0].sqnr_db
    assert found["tensorrt-rtx"] > found["tensorrt"] + 0.3


@pytest.mark.parametrize("data", [False, True], ids=["nearest", "by data"])
def test_strip_gives_back_code_times_scale(tmp_path, data):
    given = FileData(path=tmp_path / "data.npz") if data else None
    quantize_model(product(tmp_path), given, tmp_path / "q.onnx", int4("tensorrt-rtx"))
    strip_model(tmp_path / "q.onnx", tmp_path / "s.onnx")
    codes, scale = constants_of(tmp_path / "q.onnx")
    assert scale.min() < 0
    expected = codes.astype(np.float32).reshape(-1, 32, OUTPUTS) * scale[:, None]
    stripped = onnx.load(tmp_path / "s.onnx").graph.initializer
    np.testing.assert_array_equal(numpy_helper.to_array(stripped[0]), expected.reshape(CHANNELS, OUTPUTS))


def test_a_saved_plan_gives_the_same_model_again(tmp_path):
    quantize_model(product(tmp_path), None, tmp_path / "q.onnx", int4("tensorrt-rtx", plan_file=tmp_path / "plan.json"))
    insert_plan(tmp_path / "float.onnx", tmp_path / "plan.json", tmp_path / "again.onnx")
    np.testing.assert_array_equal(scales_of(tmp_path / "again.onnx"), scales_of(tmp_path / "q.onnx"))
    first, second = (onnx.load(tmp_path / name).graph.initializer for name in ("q.onnx", "again.onnx"))
    assert sorted(tensor.raw_data for tensor in first) == sorted(tensor.raw_data for tensor in second)


def test_a_plan_says_that_it_has_no_codes_where_data_chose_them(tmp_path):
    path, plan = product(tmp_path), tmp_path / "plan.json"
    chosen = quantize_model(
        path, FileData(path=tmp_path / "data.npz"), tmp_path / "q.onnx", int4("tensorrt-rtx", plan_file=plan)
    )
    assert chosen.codes_not_in_plan == 1
    assert insert_plan(path, plan, tmp_path / "again.onnx").quantized[0].reason.endswith(SCALES_ONLY)
    nearest = quantize_model(path, None, tmp_path / "n.onnx", int4("tensorrt-rtx", plan_file=tmp_path / "n.json"))
    assert nearest.codes_not_in_plan == 0


@pytest.mark.parametrize(
    ("entry", "words"),
    [('tensor = "x"\naxis = 1\nblock_size = 32', "only stored weights"), ('tensor = "w"', "greater than 0")],
)
def test_a_plan_may_not_give_them_to_activations_or_whole_tensors(tmp_path, entry, words):
    path = product(tmp_path)
    model = onnx.load(path)
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 4
    onnx.save(model, path)
    plan = f'schema_version = 1\n[[tensors]]\n{entry}\nformat = "int4"\nscale = -0.5\n'
    (tmp_path / "plan.toml").write_text(plan)
    with pytest.raises(UsageError, match=words):
        insert_plan(path, tmp_path / "plan.toml", tmp_path / "q.onnx")


def test_weights_that_stay_float_behind_a_q_get_positive_scales(tmp_path):
    options = int4("tensorrt-rtx", weights=WeightStorage.QDQ)
    quantize_model(product(tmp_path), None, tmp_path / "q.onnx", options)
    assert scales_of(tmp_path / "q.onnx").min() > 0


def test_codes_of_a_negative_step_are_those_of_the_mirrored_values():
    x = np.random.default_rng(8).standard_normal((64, 6)).astype(np.float32)
    scale = np.full((2, 6), 0.4, np.float32)
    fmt, blocks = formats.get("int4"), Blocked(0, 32)
    codes = quantize(x, -scale, fmt, blocks)
    np.testing.assert_array_equal(codes.astype(int), quantize(-x, scale, fmt, blocks).astype(int))
    np.testing.assert_array_equal(dequantize(codes, -scale, blocks), -dequantize(codes, scale, blocks))
    with pytest.raises(ArgumentError, match="greater than 0"):
        QuantParams(QuantScheme(fmt, PerAxis(1)), -scale[0])


def shared(weight: np.ndarray) -> onnx.ModelProto:
    """x @ w, Neg(x) @ w' (along the other axis) and Abs(x) @ w."""
    nodes = nodes_of("""minus = Neg (x)  size = Abs (x)  [straight] a = MatMul (x, w)
        [across] b = Gemm <transB = 1> (minus, w)  [excluded] c = MatMul (size, w)""")
    n = len(weight)
    return make_model(nodes, {"x": ("rows", n)}, dict.fromkeys("abc", ("rows", n)), {"w": weight}, opset=21)


def planned(model: onnx.ModelProto, mode: str, data: Feeds | None = None, *, codes: bool = True, **recipe) -> Planned:
    options = Recipe(quantize_mode=mode, **{"target": "onnx", **recipe})
    return WeightPlanner(options, data, stored=codes).plan(ModelIndex.of(Model(model)))


def samples(n: int) -> Feeds:
    x = np.random.default_rng(3).standard_normal((2, 40, n)).astype(np.float32) * np.linspace(0.1, 3, n, dtype="f4")
    return Feeds([{"x": each} for each in x], DataDescription("test", 2, None, {}))


@pytest.mark.parametrize("mode", ["int4", "nvfp4"])
def test_each_pair_of_a_shared_matrix_is_rounded_by_the_inputs_of_its_own_products(mode):
    weight = np.random.default_rng(2).standard_normal((64, 64)).astype(np.float32)
    data = samples(64)
    selection = Selection(nodes_to_exclude=("excluded",))
    found = planned(shared(weight), mode, data, selection=selection)
    x = np.concatenate([sample["x"] for sample in data]).astype(np.float64)
    assert [str(each.params.scheme.granularity)[-6:] for each in found.plan] == ["axis 0", "axis 1"]
    for placement in found.plan:
        codes = round_weights(weight, placement.params, x.T @ x)
        assert placement.codes.make() == pack(codes, placement.params.scheme.format).tobytes()
        assert placement.reason.endswith("; codes chosen with the calibration data")
    assert found.rounded_by_data == 2


@pytest.mark.parametrize(
    ("mode", "data", "codes"), [("int4", False, True), ("int4", True, False), ("mxfp8", True, True)]
)
def test_codes_are_the_nearest_without_data_behind_a_q_and_in_modes_that_choose_no_scales(mode, data, codes):
    weight = np.random.default_rng(2).standard_normal((64, 64)).astype(np.float32)
    found = planned(shared(weight), mode, samples(64) if data else None, codes=codes)
    assert [placement.codes for placement in found.plan] == [None, None]
    assert not any("rounded" in placement.reason for placement in found.plan)


def test_scales_of_channels_are_the_largest_magnitude_over_the_largest_code_whatever_the_signs():
    weight = np.random.default_rng(2).standard_normal((32, 32)).astype(np.float32)
    weight[:, 3], weight[:, 4] = np.abs(weight[:, 3]), -np.abs(weight[:, 4])
    weight[5] = -np.abs(weight[5])
    weight[:, 6] = 0
    found = planned(shared(weight), "int8-weight-only")
    largest = {0: np.abs(weight).max(1), 1: np.abs(weight).max(0)}
    for placement in found.plan:
        amax = largest[placement.params.scheme.granularity.axis]
        expected = np.where(amax > 0, amax / np.float32(127), 1)
        np.testing.assert_allclose(placement.params.scale, expected, rtol=2**-23)
    assert [(each.tensor, each.condition, each.scales, each.of) for each in found.degenerate] == [("w", "zeros", 1, 32)]


@pytest.mark.parametrize("mode", ["int4", "int8-weight-only"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_weight_that_is_not_finite_is_named(mode, value):
    weight = np.ones((32, 32), np.float32)
    weight[3, 4] = value
    with refused(UsageError, "weight 'w' has NaN or infinities", hint="exclude the nodes that use it"):
        planned(shared(weight), mode)


@pytest.mark.parametrize("mode", ["int4", "int8-weight-only"])
def test_a_weight_whose_data_is_missing_is_named(mode):
    proto = shared(np.ones((32, 32), np.float32))
    onnx.external_data_helper.set_external_data(proto.graph.initializer[0], "lost")
    proto.graph.initializer[0].ClearField("raw_data")
    index = ModelIndex.of(Model(proto, missing_data=frozenset({"lost"})))
    with refused(UsageError, "weight 'w' cannot be read", hint="exclude the nodes that use it"):
        WeightPlanner(Recipe(quantize_mode=mode)).plan(index)


def test_what_the_target_refuses_of_the_plan_is_an_error():
    """That release takes int4, but not with an odd last dimension."""
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    weight = np.ones((64, 31), np.float32)
    model = make_model(nodes, {"x": (4, 64)}, {"y": (4, 31)}, {"w": weight}, opset=21)
    with pytest.raises(UsageError, match=r"tensor 'w': tensorrt-10\.5 takes no int4 tensor with an odd last dimension"):
        planned(model, "int4", target="tensorrt-10.5")


def test_nothing_to_quantize_is_an_error_that_names_the_first_reason():
    nodes = [helper.make_node("MatMul", ["x", "x"], ["y"], "product")]
    message = r"^nothing is left to quantize: 'product' \(MatMul\): it multiplies two activations"
    with pytest.raises(UsageError, match=message):
        planned(make_model(nodes, {"x": (4, 4)}, {"y": (4, 4)}, {}), "int4")


def layers(words: str, between: str = "") -> onnx.ModelProto:
    """Layers one behind the other: products of the last one's sum with these weights, perhaps behind an operator."""
    lines, x = list[str](), "x"
    for number, group in enumerate(words.split()):
        for place, name in enumerate(group):
            weight = f"v{number}{place}" if between else name
            lines += [f"{weight} = {between} ({name})"] * bool(between)
            lines += [f"p{number}{place} = MatMul ({x}, {weight})"]
        lines += [f"s{number} = Sum ({', '.join(f'p{number}{place}' for place in range(len(group)))})"]
        x = f"s{number}"
    inputs = ", ".join(f"float[4,4] {name}" for name in sorted({*words} - {" "}))
    text = f'<ir_version: 10, opset_import: ["": 21]> g (float[2,4] x, {inputs}) => (float[2,4] {x})'
    return parser.parse_model(f"{text} {{ {' '.join(lines)} }}")


def parts(words: str, between: str = "") -> dict[str, list[list[str]]]:
    """For each weight the outputs of the nodes that read it, those of one slot together."""
    index = ModelIndex.of(Model(layers(words, between)))
    slots = []
    for name in sorted({*words} - {" "}):
        value = index.view.main.values[name]
        slots.append(Slot((), name, tuple(UseRef((), use.node.key, use.index) for use in value.uses)))
    found = separated(slots, index)
    return {slot.tensor: [[use.node[0] for use in part.uses or ()] for part in found[slot]] for slot in slots}


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("ab ab", {"a": [["p00"], ["p10"]], "b": [["p01"], ["p11"]]}),
        ("ab ac", {"a": [["p00"], ["p10"]], "b": [["p01"]], "c": [["p11"]]}),
        ("ab ab ab", {"a": [["p00"], ["p10"], ["p20"]], "b": [["p01"], ["p11"], ["p21"]]}),
        ("aa aa", {"a": [["p00", "p01"], ["p10", "p11"]]}),
        ("ab a", {"a": [["p00", "p10"]], "b": [["p01"]]}),
        ("ab a ac", {"a": [["p00", "p10"], ["p20"]], "b": [["p01"]], "c": [["p21"]]}),
        ("a a", {"a": [["p00", "p10"]]}),
        ("aa", {"a": [["p00", "p01"]]}),
    ],
)
def test_a_group_beside_another_gets_its_own(words: str, expected: dict[str, list[list[str]]]) -> None:
    assert parts(words) == expected


def test_operators_between_are_looked_through() -> None:
    assert parts("ab ab", "Identity") == {"a": [["v00"], ["v10"]], "b": [["v01"], ["v11"]]}
    assert parts("ab ab", "Transpose") == parts("ab ab", "Identity")
    assert parts("ab ab", "Neg") == {"a": [["v00", "v10"]], "b": [["v01", "v11"]]}
