"""Constants and graphs that are not the baseline's fail; preparation, correction and folding do not."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import onnx
import pytest
from conftest import real_models
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from support.small import make_model

from qdqtool.accuracy.checking.limits import Gates
from qdqtool.accuracy.checking.options import CheckOptions
from qdqtool.accuracy.checking.report import CheckReport
from qdqtool.jobs.check import check_model
from qdqtool.jobs.quantize import QuantizeOptions, quantize_model
from qdqtool.models.graph.model import Model
from qdqtool.models.options import WeightStorage
from qdqtool.quantization.planning.options import HighPrecision
from qdqtool.quantization.planning.placement.proposal import Selection
from qdqtool.quantization.planning.recipe import Recipe
from qdqtool.samples.in_memory import hold_data
from qdqtool.samples.request import DataRequest, RandomData

Edit = Callable[[onnx.ModelProto], None]
Array = np.ndarray
FLOAT_HEAD = Recipe(selection=Selection(nodes_to_exclude=("classify",)))
RECIPES = {
    "packed": QuantizeOptions(recipe=Recipe(selection=Selection(nodes_to_exclude=("classify",)))),
    "qdq": QuantizeOptions(
        recipe=Recipe(selection=Selection(nodes_to_exclude=("classify",))), weights=WeightStorage.QDQ
    ),
    "fp8": QuantizeOptions(recipe=Recipe(quantize_mode="fp8")),
    "fp16": QuantizeOptions(recipe=Recipe(high_precision=HighPrecision.FP16)),
    "ort-cpu": QuantizeOptions(recipe=Recipe(target="ort-cpu")),
    "int8-weight-only": QuantizeOptions(recipe=Recipe(quantize_mode="int8-weight-only")),
}


def network() -> onnx.ModelProto:
    """Conv -> Relu -> InstanceNormalization -> Conv -> Sigmoid -> mean -> Gemm, with biases that matter."""
    rng = np.random.default_rng(5)
    shapes = {"w": (16, 16, 3, 3), "v": (16, 16, 3, 3), "head": (6, 16)}
    weights = {name: rng.normal(size=shape).astype(np.float32) / 8 for name, shape in shapes.items()}
    weights |= {name: rng.normal(size=16).astype(np.float32) for name in ("b", "c", "shift")}
    weights |= {"gain": rng.uniform(0.5, 2, 16).astype(np.float32), "d": np.zeros(6, np.float32)}
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["t1"], name="first", pads=[1] * 4),
        helper.make_node("Relu", ["t1"], ["t2"], name="relu"),
        helper.make_node("InstanceNormalization", ["t2", "gain", "shift"], ["t3"], name="norm"),
        helper.make_node("Conv", ["t3", "v", "c"], ["t4"], name="second", pads=[1] * 4),
        helper.make_node("Sigmoid", ["t4"], ["t5"], name="gate"),
        helper.make_node("ReduceMean", ["t5"], ["t6"], name="mean", axes=[2, 3], keepdims=0),
        helper.make_node("Gemm", ["t6", "head", "d"], ["y"], name="classify", transB=1),
    ]
    return make_model(nodes, {"x": (1, 16, 8, 8)}, {"y": (1, 6)}, weights, opset=17)


def cut(model: onnx.ModelProto, output: str) -> onnx.ModelProto:
    """The model with this output alone."""
    del model.graph.output[:]
    model.graph.output.append(helper.make_tensor_value_info(output, onnx.TensorProto.FLOAT, None))
    return model


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, onnx.ModelProto]:
    """The network, quantized by each recipe."""
    folder = tmp_path_factory.mktemp("float_form")
    onnx.save(network(), folder / "float.onnx")
    for name, options in RECIPES.items():
        data = None if name == "int8-weight-only" else RandomData(samples=4)
        quantize_model(folder / "float.onnx", data, folder / f"{name}.onnx", options)
    return {name: onnx.load(folder / f"{name}.onnx") for name in RECIPES}


def check(
    model: onnx.ModelProto, baseline: onnx.ModelProto | None = None, *, random: bool = False, **gates: float
) -> CheckReport:
    baseline = baseline or network()
    stored = {tensor.name for tensor in baseline.graph.initializer}
    (x,) = (each for each in baseline.graph.input if each.name not in stored)
    batch, *extents = (dim.dim_value for dim in x.type.tensor_type.shape.dim)
    rows = np.random.default_rng(7).normal(size=(2 * batch, *extents)).astype(np.float32)
    data = DataRequest(samples=2) if random else DataRequest(path=hold_data({x.name: rows}))
    return check_model(Model(model), baseline=Model(baseline), data=data, options=CheckOptions(gates=Gates(**gates)))


def verdicts(report: CheckReport) -> dict[str, bool]:
    return {gate.name: gate.passed for gate in report.gates if gate.name in {"constants", "structure"}}


def details(report: CheckReport) -> dict[str, str]:
    return {gate.name: gate.detail for gate in report.gates if gate.name in {"constants", "structure"}}


def unjudged(report: CheckReport) -> str:
    """Why neither gate could judge; empty if they did."""
    start = "constants and graph were not compared with the baseline: "
    (reason,) = [line.removeprefix(start) for line in report.warnings if line.startswith(start)] or [""]
    assert bool(reason) == (verdicts(report) == {})
    return reason


def copy(model: onnx.ModelProto) -> onnx.ModelProto:
    return onnx.ModelProto.FromString(model.SerializeToString())


def node(model: onnx.ModelProto, name: str) -> onnx.NodeProto:
    return next(each for each in model.graph.node if each.name == name)


def constant(model: onnx.ModelProto, name: str, index: int, change: Callable[[Array], Array]) -> onnx.ModelProto:
    """The model with a changed constant at an input of a node; a Q and a DQ in between are passed."""
    model = copy(model)
    makers = {output: each for each in model.graph.node for output in each.output}
    tensor = node(model, name).input[index]
    while tensor in makers:
        tensor = makers[tensor].input[0]
    (stored,) = (each for each in model.graph.initializer if each.name == tensor)
    stored.CopyFrom(numpy_helper.from_array(change(numpy_helper.to_array(stored).copy()), tensor))
    return model


def swapped(array: Array) -> Array:
    """The array with its smallest and its largest row in each other's place."""
    rows = array.reshape(len(array), -1).sum(axis=1)
    first, last = int(np.argmin(rows)), int(np.argmax(rows))
    array[[first, last]] = array[[last, first]]
    return array


@pytest.mark.parametrize("name", RECIPES)
def test_a_good_model_passes(made: dict[str, onnx.ModelProto], name: str) -> None:
    report = check(made[name])
    assert verdicts(report) == {"constants": True, "structure": True}


@pytest.mark.parametrize("name", RECIPES)
@pytest.mark.parametrize(
    ("place", "change"),
    [
        (("first", 2), swapped),
        (("first", 2), np.zeros_like),
        (("second", 2), swapped),
        (("norm", 1), lambda gain: gain * np.float32(1.2).astype(gain.dtype)),
        (("classify", 1), swapped),
    ],
)
def test_another_constant_fails(
    made: dict[str, onnx.ModelProto], name: str, place: tuple[str, int], change: Callable[[Array], Array]
) -> None:
    report = check(constant(made[name], *place, change))
    assert verdicts(report) == {"constants": False, "structure": True}
    (gate,) = (gate for gate in report.gates if gate.name == "constants")
    assert any(f"'{place[0]}'" in failure for failure in gate.failures)


def test_a_bias_is_in_doubt_with_random_data(made: dict[str, onnx.ModelProto]) -> None:
    report = check(constant(made["packed"], "first", 2, swapped), random=True)
    assert verdicts(report) == {"constants": True, "structure": True}
    assert any("'first'" in line and "shows whether it is a correction" in line for line in report.warnings)
    assert not verdicts(check(constant(made["packed"], "norm", 1, swapped), random=True))["constants"]


def test_swapped_channels_of_a_float_weight_fail(made: dict[str, onnx.ModelProto]) -> None:
    assert verdicts(check(constant(made["qdq"], "second", 1, swapped))) == {"constants": False, "structure": True}


def test_weights_on_the_grid_of_their_q_pass(made: dict[str, onnx.ModelProto]) -> None:
    """Tools may store rounded float weights, at either of the two nearest codes."""
    model = made["qdq"]
    quantize = next(each for each in model.graph.node if each.output[0] == dequantizer(model, "second", 1).input[0])
    (scale,) = (numpy_helper.to_array(each) for each in model.graph.initializer if each.name == quantize.input[1])
    scale = scale.reshape(-1, 1, 1, 1)
    up = constant(model, "second", 1, lambda weight: (np.ceil(weight / scale) * scale).astype(np.float32))
    report = check(up)
    assert verdicts(report) == {"constants": True, "structure": True}
    assert details(report)["constants"] == "3 corrected or rounded"
    far = constant(model, "second", 1, lambda weight: (np.ceil(weight / scale + 1) * scale).astype(np.float32))
    assert verdicts(check(far)) == {"constants": False, "structure": True}


def dequantizer(model: onnx.ModelProto, name: str, index: int) -> onnx.NodeProto:
    return next(each for each in model.graph.node if each.output[0] == node(model, name).input[index])


def without_relu(model: onnx.ModelProto) -> None:
    relu = node(model, "relu")
    for each in model.graph.node:
        each.input[:] = [relu.input[0] if name == relu.output[0] else name for name in each.input]
    model.graph.node.remove(relu)


def with_attribute(name: str, **attributes: object) -> Edit:
    def change(model: onnx.ModelProto) -> None:
        found = node(model, name)
        kept = [each for each in found.attribute if each.name not in attributes]
        del found.attribute[:]
        found.attribute.extend([*kept, *(helper.make_attribute(key, value) for key, value in attributes.items())])

    return change


def with_operator(name: str, op_type: str) -> Edit:
    def change(model: onnx.ModelProto) -> None:
        node(model, name).op_type = op_type

    return change


STRUCTURES = {
    "no Relu": (without_relu, "the model lacks Relu 'relu'"),
    "stride": (with_attribute("second", strides=[2, 2]), "attributes differ at Conv 'second'"),
    "dilation": (with_attribute("second", dilations=[2, 2], pads=[2] * 4), "attributes differ at Conv 'second'"),
    "epsilon": (with_attribute("norm", epsilon=0.3), "attributes differ at InstanceNormalization 'norm'"),
    "activation": (with_operator("gate", "Tanh"), "the model lacks Sigmoid 'gate'; the baseline lacks Tanh 'gate'"),
}


@pytest.mark.parametrize("name", ["packed", "qdq", "fp16", "int8-weight-only"])
@pytest.mark.parametrize("fault", STRUCTURES)
def test_another_graph_fails(made: dict[str, onnx.ModelProto], name: str, fault: str) -> None:
    model, (edit, words) = copy(made[name]), STRUCTURES[fault]
    edit(model)
    report = check(model)
    assert verdicts(report) == {"structure": False}
    (failure,) = (failure for gate in report.gates if gate.name == "structure" for failure in gate.failures)
    assert words in failure


def test_a_clip_that_only_a_later_sample_reaches_fails(made: dict[str, onnx.ModelProto]) -> None:
    """The sample that lost most is compared, too."""
    model = copy(made["packed"])
    rows = np.random.default_rng(7).normal(size=(6, 16, 8, 8)).astype(np.float32)
    rows[4] *= 4
    quiet = [float(ReferenceEvaluator(cut(network(), "t2")).run(None, {"x": row[None]})[0].max()) for row in rows]
    top = numpy_helper.from_array(np.float32(max(quiet[:4])), "top")
    assert quiet[4] > 1.5 * float(max(quiet[:4]))
    relu = node(model, "relu")
    relu.op_type = "Clip"
    relu.input.extend(["floor", "top"])
    model.graph.initializer.extend([numpy_helper.from_array(np.float32(0), "floor"), top])
    for count, passed in ((4, True), (6, False)):
        data = DataRequest(path=hold_data({"x": rows[:count]}))
        report = check_model(Model(model), baseline=Model(network()), data=data)
        assert verdicts(report)["structure"] == passed


def test_weights_that_may_differ_skip_both_gates(made: dict[str, onnx.ModelProto]) -> None:
    report = check(constant(made["packed"], "first", 2, swapped), max_weight_steps=float("inf"))
    assert unjudged(report) == "weights may differ from those of the baseline (--max-weight-steps inf)"


def with_batchnorm() -> onnx.ModelProto:
    """The network with a BatchNormalization behind each Conv."""
    model = network()
    rng = np.random.default_rng(6)
    nodes = []
    for each in model.graph.node:
        nodes.append(each)
        if each.op_type == "Conv":
            names = [f"{each.name}_{part}" for part in ("scale", "bias", "mean", "var")]
            arrays = [rng.uniform(0.5, 1.5, 16).astype(np.float32) for _ in names]
            model.graph.initializer.extend(map(numpy_helper.from_array, arrays, names))
            output, each.output[0] = each.output[0], f"{each.output[0]}_sum"
            nodes.append(
                helper.make_node("BatchNormalization", [each.output[0], *names], [output], name=f"{each.name}_bn")
            )
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    return model


def test_folded_batchnorms_pass_and_faults_behind_them_fail(tmp_path: Path) -> None:
    onnx.save(with_batchnorm(), tmp_path / "float.onnx")
    quantize_model(tmp_path / "float.onnx", RandomData(samples=4), tmp_path / "q.onnx", RECIPES["packed"])
    model = onnx.load(tmp_path / "q.onnx")
    assert "BatchNormalization" not in {each.op_type for each in model.graph.node}
    report = check(model, with_batchnorm())
    assert verdicts(report) == {"constants": True, "structure": True}
    assert not verdicts(check(constant(model, "second", 2, swapped), with_batchnorm()))["constants"]


def test_folding_that_is_not_noted_is_skipped_if_constants_differ_too(tmp_path: Path) -> None:
    """Nothing tells a corrected bias from a folded one. If the models compute the same, nothing has to be told."""
    onnx.save(with_batchnorm(), tmp_path / "float.onnx")
    quantize_model(tmp_path / "float.onnx", RandomData(samples=4), tmp_path / "q.onnx", RECIPES["qdq"])
    model = onnx.load(tmp_path / "q.onnx")
    del model.metadata_props[:]
    text = "BatchNormalization 'first_bn' of the baseline has no counterpart, as after folding"
    assert unjudged(check(model, with_batchnorm())) == text


@pytest.mark.parametrize("is_gone", [False, True])
def test_an_add_that_became_a_sub_or_went_without_a_trace_was_not_folded(tmp_path: Path, is_gone: bool) -> None:
    rng = np.random.default_rng(3)
    weights = {name: rng.normal(size=(64, 64)).astype(np.float32) / 8 for name in ("w", "v")}
    weights["b"] = rng.normal(size=64).astype(np.float32)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["t"], name="m"),
        helper.make_node("Add", ["t", "b"], ["s"], name="a"),
        helper.make_node("MatMul", ["s", "v"], ["y"], name="n"),
    ]
    baseline = make_model(nodes, {"x": (4, 64)}, {"y": (4, 64)}, weights, opset=21)
    onnx.save(baseline, tmp_path / "float.onnx")
    quantize_model(tmp_path / "float.onnx", RandomData(samples=4), tmp_path / "q.onnx")
    model = onnx.load(tmp_path / "q.onnx")
    assert verdicts(check(model, baseline)) == {"constants": True, "structure": True}
    add = next(node for node in model.graph.node if node.name == "a")
    if is_gone:
        for each in model.graph.node:
            each.input[:] = ["t" if name == add.output[0] else name for name in each.input]
        model.graph.node.remove(add)
    else:
        add.op_type = "Sub"
    report = check(model, baseline)
    (structure,) = (gate for gate in report.gates if gate.name == "structure")
    assert "lacks Add 'a'" in structure.failures[0]


def test_no_float_output_is_skipped(made: dict[str, onnx.ModelProto]) -> None:
    def labels(model: onnx.ModelProto) -> onnx.ModelProto:
        model = copy(model)
        model.graph.node.append(helper.make_node("ArgMax", ["y"], ["label"], axis=1))
        model.graph.output[0].CopyFrom(helper.make_tensor_value_info("label", onnx.TensorProto.INT64, (1, 1)))
        return model

    report = check(labels(made["packed"]), labels(network()))
    assert unjudged(report) == "no output of the baseline is a float"


def test_float_models_have_no_such_gates() -> None:
    assert verdicts(check(network())) == {}


def test_a_baseline_with_pairs_is_skipped(made: dict[str, onnx.ModelProto]) -> None:
    assert unjudged(check(made["packed"], made["ort-cpu"])) == "the baseline has Q and DQ nodes"


def test_folded_weights_pass(made: dict[str, onnx.ModelProto]) -> None:
    """An optimizer may fold the Q and DQ of a weight; what is left is a float weight that was rounded."""
    model = made["packed"]
    codes = {each.name: numpy_helper.to_array(each) for each in model.graph.initializer}
    folded = copy(model)
    for each in list(folded.graph.node):
        if each.op_type == "DequantizeLinear" and each.input[0] in codes:
            scale = codes[each.input[1]].reshape(-1, *[1] * (codes[each.input[0]].ndim - 1))
            weight = codes[each.input[0]].astype(np.float32) * scale
            folded.graph.initializer.append(numpy_helper.from_array(weight, each.output[0]))
            folded.graph.node.remove(each)
    assert verdicts(check(folded)) == {"constants": True, "structure": True}
    assert verdicts(check(constant(folded, "second", 1, swapped))) == {"constants": False, "structure": True}


def test_a_mask_that_float16_cannot_hold_passes(tmp_path: Path) -> None:
    """Half precision writes about -16384 for the lowest float32; the Softmax makes 0 of both."""
    rng = np.random.default_rng(4)
    weights = {"w": rng.normal(size=(16, 16)).astype(np.float32), "b": rng.normal(size=16).astype(np.float32)}
    weights |= {"low": np.float32(np.finfo(np.float32).min), "zero": np.float32(0)}
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["t1"], name="product"),
        helper.make_node("Add", ["t1", "b"], ["t2"], name="add"),
        helper.make_node("Less", ["x", "zero"], ["mask"], name="less"),
        helper.make_node("Where", ["mask", "low", "t2"], ["t3"], name="masked"),
        helper.make_node("Softmax", ["t3"], ["y"], name="softmax", axis=-1),
    ]
    float_model = make_model(nodes, {"x": (4, 16)}, {"y": (4, 16)}, weights, opset=17)
    onnx.save(float_model, tmp_path / "float.onnx")
    quantize_model(tmp_path / "float.onnx", RandomData(samples=4), tmp_path / "q.onnx", RECIPES["fp16"])
    model = onnx.load(tmp_path / "q.onnx")
    assert -17000 < min(float(numpy_helper.to_array(each).min()) for each in model.graph.initializer) < -16000
    assert verdicts(check(model, float_model)) == {"constants": True, "structure": True}
    assert not verdicts(check(constant(model, "add", 1, np.zeros_like), float_model))["constants"]


@pytest.mark.slow(reason="quantizes two real networks")
@pytest.mark.parametrize("name", ["face_slim_320", "face_slim_320_unfolded_opset9"])
def test_faults_in_real_networks_fail(name: str, tmp_path: Path) -> None:
    path = next((each for each in real_models() if each.stem == name), None)
    if path is None:
        pytest.skip("no real models")
    quantize_model(path, RandomData(samples=4), tmp_path / "q.onnx", QuantizeOptions(recipe=Recipe(target="ort-cpu")))
    model, baseline = onnx.load(tmp_path / "q.onnx"), onnx.load(path)
    good = check(model, baseline)
    assert verdicts(good) == {"constants": True, "structure": True}
    fourth = [each.name for each in model.graph.node if each.op_type == "Conv"][3]
    assert verdicts(check(constant(model, fourth, 2, swapped), baseline)) == {"constants": False, "structure": True}
    relu = next(each for each in model.graph.node if each.op_type == "Relu")
    relu.op_type = "Sigmoid"
    assert verdicts(check(model, baseline)) == {"structure": False}


def test_the_limit_of_corrections_is_larger_for_random_data(made: dict[str, onnx.ModelProto]) -> None:
    """A correction has up to 0.85 errors of its layer on data like that of the calibration."""

    def first_fault(*, random: bool) -> int:
        for power in range(20):
            change = np.float32(0.01 * 1.5**power)
            report = check(constant(made["ort-cpu"], "second", 2, partial(np.add, change)), random=random)
            (gate,) = (gate for gate in report.gates if gate.name == "constants")
            if gate.failures or gate.warnings:
                return power
        raise AssertionError

    # 1.5 ** 3 is 3.4: from 3 errors to 10.
    assert first_fault(random=True) - first_fault(random=False) in {2, 3, 4}


@pytest.mark.parametrize(("decibels", "passed"), [(59.5, False), (60.5, True)])
def test_a_constant_that_changes_outputs_by_less_than_60_db_passes(
    made: dict[str, onnx.ModelProto], decibels: float, passed: bool
) -> None:
    """The head is the last layer and its bias is 0, so its factor is that of the output."""
    factor = 1 + 10 ** (-decibels / 20)
    changed = constant(made["packed"], "classify", 1, lambda head: (head * factor).astype(np.float32))
    assert verdicts(check(changed)) == {"constants": passed, "structure": True}


def test_a_message_names_three_nodes() -> None:
    arrays = {"w": np.eye(4, dtype=np.float32), "s": np.float32(0.1), "z": np.int8(0)}
    pair = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        helper.make_node("MatMul", ["d", "w"], ["y"], name="product"),
    ]
    plain = [helper.make_node("MatMul", ["x", "w"], ["t0"], name="product")]
    for number, op_type in enumerate(("Abs", "Neg", "Floor", "Sinh")):
        made = "y" if op_type == "Sinh" else f"t{number + 1}"
        plain.append(helper.make_node(op_type, [f"t{number}"], [made], name=op_type.lower()))
    model, baseline = (make_model(nodes, {"x": (2, 4)}, {"y": (2, 4)}, arrays) for nodes in (pair, plain))
    (failure,) = (each for gate in check(model, baseline).gates if gate.name == "structure" for each in gate.failures)
    assert failure.endswith("; the model lacks Abs 'abs', Neg 'neg', Floor 'floor'")
