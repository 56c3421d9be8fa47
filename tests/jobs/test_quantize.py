"""Quantize: scales on the right axis, the same bytes in one step or two, and what would be done."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnx_ir
import pytest
from onnx import TensorProto, helper, numpy_helper
from support.batchnorm import batchnorm_model
from support.qdq import text_model
from support.small import conv_model, make_model, matmul_model, run

from qdqtool.errors import CapabilityError, GateError, OutputError, UsageError
from qdqtool.jobs.calibrate import calibrate_to_file
from qdqtool.jobs.check import check_model
from qdqtool.jobs.insert import insert_plan
from qdqtool.jobs.matches import list_matches
from qdqtool.jobs.quantize import CachedRanges, QuantizeOptions, quantize_model
from qdqtool.jobs.quantize_report import QuantizeReport
from qdqtool.jobs.validate import validate_model
from qdqtool.linting import rules
from qdqtool.models.graph.io.metadata import CALIBRATION_KEY
from qdqtool.models.graph.model import Model
from qdqtool.models.options import ExternalData, WeightStorage
from qdqtool.quantization.planning.options import HighPrecision, Preparation
from qdqtool.quantization.planning.placement import Selection
from qdqtool.quantization.planning.recipe import Recipe
from qdqtool.samples.request import RandomData


def images(count: int = 4) -> np.ndarray:
    return np.random.default_rng(2).normal(size=(count, 3, 8, 8)).astype(np.float32)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    np.savez(tmp_path / "data.npz", x=images())
    return tmp_path / "data.npz"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    onnx.save(conv_model(), tmp_path / "float.onnx")
    return tmp_path / "float.onnx"


def saved(proto: onnx.ModelProto, folder: Path) -> Path:
    onnx.save(proto, folder / "float.onnx")
    return folder / "float.onnx"


AS_IT_IS = Preparation(equalize=False, smoothquant=None, bias_correction=False)


def with_options(**words: object) -> QuantizeOptions:
    return QuantizeOptions(recipe=Recipe(**words))


def constant(proto: onnx.ModelProto, name: str) -> np.ndarray:
    return next(numpy_helper.to_array(tensor) for tensor in proto.graph.initializer if tensor.name == name)


def reader_of(proto: onnx.ModelProto, tensor: str, op_type: str) -> onnx.NodeProto:
    return next(node for node in proto.graph.node if node.op_type == op_type and tensor in node.input)


def test_activation_scales_are_the_largest_magnitude_over_127_and_weight_scales_that_of_each_channel(
    model, data, tmp_path
):
    quantize_model(model, data, tmp_path / "q.onnx", with_options(method="max"))
    proto = onnx.load(tmp_path / "q.onnx")
    x_scale = constant(proto, reader_of(proto, "x", "QuantizeLinear").input[1])
    assert x_scale == np.abs(images()).max() / np.float32(127)
    w = constant(conv_model(), "w")
    dequantize = next(n for n in proto.graph.node if n.op_type == "DequantizeLinear" and n.input[0] == "w_quantized")
    w_scale = constant(proto, dequantize.input[1])
    assert np.array_equal(w_scale, np.abs(w).max(axis=(1, 2, 3)) / np.float32(127))
    assert helper.get_attribute_value(dequantize.attribute[0]) == 0
    codes = constant(proto, "w_quantized")
    assert codes.dtype == np.int8
    assert codes.min() >= -127
    assert np.array_equal(np.abs(codes).max(axis=(1, 2, 3)), [127] * 4)


def test_the_result_is_valid_onnx_that_other_readers_open_and_bias_stays_float(model, data, tmp_path):
    quantize_model(model, data, tmp_path / "q.onnx")
    onnx.checker.check_model(str(tmp_path / "q.onnx"), full_check=True)
    assert onnx_ir.load(tmp_path / "q.onnx").graph.num_nodes() == 3 + 2 * 2 + 2
    proto = onnx.load(tmp_path / "q.onnx")
    made = {name for node in proto.graph.node for name in node.output}
    biased = [node for node in proto.graph.node if node.op_type == "Conv"]
    assert len(biased) == 2
    assert all(constant(proto, node.input[2]).dtype == np.float32 and node.input[2] not in made for node in biased)
    assert validate_model(tmp_path / "q.onnx", ["tensorrt", "tensorrt-rtx", "onnx"]).summary.errors == 0


def test_outputs_stay_close_to_the_float_model(model, data, tmp_path):
    quantize_model(model, data, tmp_path / "q.onnx")
    (before,), (after,) = (run(str(path), {"x": images()[:1]}) for path in (model, tmp_path / "q.onnx"))
    noise = np.sum((before - after).astype(np.float64) ** 2) / np.sum(before.astype(np.float64) ** 2)
    assert -10 * np.log10(noise) > 30  # two int8 layers of Gaussian numbers: some 35 dB


@pytest.mark.parametrize("weights", list(WeightStorage))
def test_calibrating_first_gives_the_same_bytes_as_one_step(weights, model, data, tmp_path):
    options = QuantizeOptions(weights=weights, ranges_file=tmp_path / "saved.json")
    quantize_model(model, data, tmp_path / "one.onnx", options)
    calibrate_to_file(model, data, tmp_path / "ranges.json")
    cached = QuantizeOptions(weights=weights)
    quantize_model(model, CachedRanges(path=tmp_path / "ranges.json"), tmp_path / "two.onnx", cached)
    assert (tmp_path / "saved.json").read_bytes() == (tmp_path / "ranges.json").read_bytes()
    assert (tmp_path / "one.onnx").read_bytes() == (tmp_path / "two.onnx").read_bytes()


def test_two_steps_fold_batchnorm_as_one_step_does(data, tmp_path):
    path = saved(batchnorm_model(variance=1.0), tmp_path)
    one = quantize_model(path, data, tmp_path / "one.onnx")
    calibrate_to_file(path, data, tmp_path / "r.json")
    two = quantize_model(path, CachedRanges(path=tmp_path / "r.json"), tmp_path / "two.onnx")
    for report in (one, two):
        (batchnorm,) = (step for step in report.preparation if step.step == "batchnorm")
        assert batchnorm.applied
    assert (tmp_path / "one.onnx").read_bytes() == (tmp_path / "two.onnx").read_bytes()


def test_quantizing_twice_gives_the_same_bytes(model, data, tmp_path):
    for name in ("a.onnx", "b.onnx"):
        quantize_model(model, data, tmp_path / name)
    assert (tmp_path / "a.onnx").read_bytes() == (tmp_path / "b.onnx").read_bytes()


def test_ranges_of_the_whole_model_serve_any_excludes_without_a_run(model, data, tmp_path, monkeypatch):
    calibrate_to_file(model, data, tmp_path / "r.json")
    monkeypatch.setattr("qdqtool.models.running.ort_cpu.Session.run", lambda *_: pytest.fail("the model was run"))
    options = with_options(selection=Selection(nodes_to_exclude=("conv2",)))
    report = quantize_model(model, CachedRanges(path=tmp_path / "r.json"), tmp_path / "q.onnx", options)
    assert [pair.tensor for pair in report.quantized] == ["x", "w"]


def test_ranges_of_another_model_are_refused_unless_forced(data, tmp_path):
    calibrate_to_file(saved(conv_model(), tmp_path), data, tmp_path / "r.json")
    other = conv_model()
    weights = constant(other, "v") * 2
    next(t for t in other.graph.initializer if t.name == "v").CopyFrom(numpy_helper.from_array(weights, "v"))
    path = saved(other, tmp_path)
    with pytest.raises(UsageError, match="were found on another model") as caught:
        quantize_model(path, CachedRanges(path=tmp_path / "r.json"), tmp_path / "q.onnx")
    assert "--force" in (caught.value.hint or "")
    assert not (tmp_path / "q.onnx").exists()
    report = quantize_model(path, CachedRanges(path=tmp_path / "r.json", force=True), tmp_path / "q.onnx")
    assert report.calibration.forced


def test_ranges_that_lack_a_tensor_are_an_error(model, data, tmp_path):
    recipe = Recipe(selection=Selection(nodes_to_exclude=("conv2",)))
    calibrate_to_file(model, data, tmp_path / "r.json", recipe)
    with pytest.raises(UsageError, match="the ranges have no tensor 'r', which is to be quantized"):
        quantize_model(model, CachedRanges(path=tmp_path / "r.json"), tmp_path / "q.onnx")


def metadata(path: Path) -> dict[str, str]:
    return {entry.key: entry.value for entry in onnx.load(path).metadata_props}


def test_the_model_says_how_it_was_calibrated(data, tmp_path):
    proto = conv_model()
    proto.metadata_props.add(key="author", value="me")
    quantize_model(saved(proto, tmp_path), data, tmp_path / "q.onnx")
    notes = metadata(tmp_path / "q.onnx")
    assert notes["author"] == "me"
    assert json.loads(notes[CALIBRATION_KEY]) == {
        "method": "auto",
        "samples": 4,
        "random": False,
        "seed": None,
        "quantized_nodes": 2,
    }


def test_random_calibration_is_never_silent(model, tmp_path):
    report = quantize_model(model, RandomData(seed=3, samples=2), tmp_path / "q.onnx")
    note = json.loads(metadata(tmp_path / "q.onnx")[CALIBRATION_KEY])
    assert note == {"method": "auto", "samples": 2, "random": True, "seed": 3, "quantized_nodes": 2}
    assert (report.calibration.random, report.calibration.seed) == (True, 3)


def test_the_plan_inserts_to_the_same_nodes_and_scales(model, data, tmp_path):
    recipe = Recipe(preparation=AS_IT_IS)
    quantize_model(model, data, tmp_path / "q.onnx", QuantizeOptions(recipe=recipe, plan_file=tmp_path / "plan.json"))
    insert_plan(model, tmp_path / "plan.json", tmp_path / "i.onnx")
    quantized, inserted = onnx.load(tmp_path / "q.onnx"), onnx.load(tmp_path / "i.onnx")
    assert quantized.graph == inserted.graph


def test_a_dead_channel_and_a_constant_activation_get_scale_1_and_are_named(tmp_path):
    proto = make_model(
        [
            helper.make_node("Mul", ["x", "zero"], ["z"]),
            helper.make_node("Concat", ["x", "z"], ["both"], axis=1),
            helper.make_node("MatMul", ["z", "w"], ["p"], name="of_zeros"),
            helper.make_node("MatMul", ["both", "v"], ["q"], name="of_both"),
            helper.make_node("Add", ["p", "q"], ["y"]),
        ],
        {"x": ("n", 4)},
        {"y": ("n", 4)},
        {
            "zero": np.zeros(1, np.float32),
            "w": np.eye(4, dtype=np.float32),
            "v": np.pad(np.ones((8, 2), np.float32), ((0, 0), (0, 2))),
        },
    )
    np.savez(tmp_path / "data.npz", x=np.float32([[1, 1, 1, 0.5], [1, 1, 1, 1 / 3]]))
    report = quantize_model(saved(proto, tmp_path), tmp_path / "data.npz", tmp_path / "q.onnx")
    found = {(entry.tensor, entry.kind): (entry.scales, entry.of, entry.scale) for entry in report.degenerate}
    assert found == {("z", "activation"): (1, 1, 1.0), ("v", "weight"): (2, 4, 1.0)}
    (out,) = run(str(tmp_path / "q.onnx"), {"x": np.ones((1, 4), np.float32)})
    assert np.allclose(out, [[4, 4, 0, 0]], rtol=1 / 127)


def test_a_branch_that_never_ran_stays_float_on_both_sides_and_is_named(tmp_path):
    proto = text_model("""
        <ir_version: 8, opset_import: ["": 17]>
        g (float[1,4] x, bool flag) => (float[1,4] y) {
            y = If (flag) <
                then_branch = yes () => (float[1,4] yes_y) { yes_a = Relu (x)  yes_y = MatMul (yes_a, yes_w) },
                else_branch = no () => (float[1,4] no_y) { no_a = Relu (x)  no_y = MatMul (no_a, no_w) }
            >
        }
    """).proto
    weight = np.random.default_rng(5).normal(size=(4, 4)).astype(np.float32)
    proto.graph.initializer.extend(numpy_helper.from_array(weight, name) for name in ("yes_w", "no_w"))
    np.savez(tmp_path / "data.npz", x=np.float32([[1, 2, 3, 4]]), flag=np.array(True))
    report = quantize_model(saved(proto, tmp_path), tmp_path / "data.npz", tmp_path / "q.onnx")
    assert [pair.tensor for pair in report.quantized] == ["yes_a", "yes_w"]
    (skipped,) = report.skipped
    assert (skipped.node, skipped.graph) == ("MatMul -> no_y", "y.else_branch")
    assert "input 'no_a': it was never computed on the calibration data" in skipped.reason


def test_every_quantizable_node_is_either_quantized_or_skipped_with_a_reason(model, data, tmp_path):
    options = with_options(selection=Selection(nodes_to_exclude=("conv1",)))
    report = quantize_model(model, data, tmp_path / "q.onnx", options)
    assert {label for pair in report.quantized for label in pair.consumers} == {"conv2"}
    assert [(node.node, node.reason) for node in report.skipped] == [
        ("conv1", "excluded by --nodes-to-exclude 'conv1'")
    ]


def test_nothing_left_to_quantize_is_an_error_with_the_reason(model, data, tmp_path):
    options = with_options(selection=Selection(op_types_to_exclude=("Conv",)))
    with pytest.raises(UsageError, match=r"nothing is left to quantize: 'conv1' .* excluded by --op-types-to-exclude"):
        quantize_model(model, data, tmp_path / "q.onnx", options)
    assert not (tmp_path / "q.onnx").exists()


def test_the_reason_for_nothing_left_is_of_an_operator_that_could_gain(tmp_path):
    nodes = [
        helper.make_node("Concat", ["x", "x"], ["joined"], name="join", axis=1),
        helper.make_node("MatMul", ["joined", "w"], ["y"], name="product"),
    ]
    proto = make_model(nodes, {"x": (1, 16)}, {"y": (1, 16)}, {"w": np.ones((32, 16), np.float32)})
    np.savez(tmp_path / "x.npz", x=np.arange(32, dtype=np.float32).reshape(2, 16))
    options = with_options(selection=Selection(nodes_to_exclude=("product",)))
    with pytest.raises(UsageError, match=r"nothing is left to quantize: 'product' .* \(and 1 more node\)"):
        quantize_model(saved(proto, tmp_path), tmp_path / "x.npz", tmp_path / "q.onnx", options)


def test_the_opset_is_raised_as_far_as_per_axis_scales_need(data, tmp_path):
    report = quantize_model(saved(conv_model(opset=11), tmp_path), data, tmp_path / "q.onnx")
    assert (report.opset_before, report.opset_after) == (11, 13)
    (before,), (after,) = (
        run(str(path), {"x": images()[:1]}) for path in (tmp_path / "float.onnx", tmp_path / "q.onnx")
    )
    assert np.abs(before - after).max() < 0.1 * np.abs(before).max()


def half_model(onnx_type: int) -> onnx.ModelProto:
    """x -> Cast -> MatMul in float16 or bfloat16 -> Cast -> y."""
    weights = np.random.default_rng(3).normal(size=(8, 6)).astype(helper.tensor_dtype_to_np_dtype(onnx_type))
    nodes = [
        helper.make_node("Cast", ["x"], ["h"], to=onnx_type),
        helper.make_node("MatMul", ["h", "w"], ["p"], name="matmul"),
        helper.make_node("Cast", ["p"], ["y"], to=TensorProto.FLOAT),
    ]
    return make_model(nodes, {"x": ("n", 8)}, {"y": ("n", 6)}, {"w": weights})


def test_scales_of_float16_tensors_are_float16(tmp_path):
    x = np.random.default_rng(4).normal(size=(3, 8)).astype(np.float32)
    np.savez(tmp_path / "data.npz", x=x)
    model = saved(half_model(TensorProto.FLOAT16), tmp_path)
    quantize_model(model, tmp_path / "data.npz", tmp_path / "q.onnx", with_options(method="max"))
    quantized = onnx.load(tmp_path / "q.onnx")
    scale = constant(quantized, reader_of(quantized, "h", "QuantizeLinear").input[1])
    assert scale.dtype == np.float16
    assert scale == (np.abs(x.astype(np.float16)).max().astype(np.float64) / 127).astype(np.float16)


def test_a_model_that_onnx_runtime_cannot_run_is_a_missing_capability(tmp_path):
    np.savez(tmp_path / "data.npz", x=np.arange(8, dtype=np.float32)[None])
    proto = matmul_model()
    proto.graph.node.add(op_type="Far", domain="far.away", input=["y"], output=["z"])
    proto.graph.output[0].name = "z"
    proto.opset_import.add(domain="far.away", version=1)
    with pytest.raises(CapabilityError, match=r"does not know operator far\.away::Far"):
        quantize_model(saved(proto, tmp_path), tmp_path / "data.npz", tmp_path / "q.onnx")


def test_a_bfloat16_model_is_calibrated_in_float32_between_roundings(tmp_path):
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "data.npz", x=rng.normal(size=(16, 8)).astype(np.float32))
    path = saved(half_model(TensorProto.BFLOAT16), tmp_path)
    quantize_model(path, tmp_path / "data.npz", tmp_path / "q.onnx")
    report = check_model(tmp_path / "q.onnx", baseline=path, data=tmp_path / "data.npz")
    assert report.passed, report.failures
    assert report.outputs[0].sqnr_db > 25


def test_a_weight_that_is_not_finite_is_named(data, tmp_path):
    proto = conv_model()
    weights = constant(proto, "v").copy()
    weights[0, 0] = np.nan
    next(t for t in proto.graph.initializer if t.name == "v").CopyFrom(numpy_helper.from_array(weights, "v"))
    with pytest.raises(UsageError, match="weight 'v' has NaN or infinities"):
        quantize_model(saved(proto, tmp_path), data, tmp_path / "q.onnx")


def test_a_result_that_would_not_pass_validate_is_not_written(model, data, tmp_path, monkeypatch):
    def lowered(*_: object) -> onnx.NodeProto:
        return {"axis": 3}

    monkeypatch.setattr("qdqtool.quantization.insertion.pair_edits.qdq_attributes", lowered)
    before = sorted(tmp_path.iterdir())
    options = QuantizeOptions(ranges_file=tmp_path / "r.json", plan_file=tmp_path / "p.json")
    with pytest.raises(GateError, match=r"would not pass `validate --target tensorrt`; nothing was written: Q[A-Z]\d+"):
        quantize_model(model, data, tmp_path / "q.onnx", options)
    assert sorted(tmp_path.iterdir()) == before


def test_errors_that_the_float_model_has_already_are_told_apart(tmp_path):
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"], name="mixed")]
    proto = make_model(nodes, {"x": (4, 32)}, {"y": (4, 32)}, {"w": np.eye(32, dtype=np.float32)})
    proto.graph.input[0].type.tensor_type.elem_type = TensorProto.FLOAT16
    options = QuantizeOptions(recipe=Recipe(quantize_mode="int8-weight-only"))
    with pytest.raises(GateError, match=r"QL311 mixed: operand 'w_DequantizeLinear_Output' is float32") as caught:
        quantize_model(saved(proto, tmp_path), None, tmp_path / "q.onnx", options)
    assert caught.value.hint == f"the model has these errors already: {rules.get('QL311').remedy}"


def test_attention_without_a_float32_kernel_names_the_option_that_builds(tmp_path):
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["q"]),
        helper.make_node("Attention", ["q", "q", "q"], ["y"], q_num_heads=2, kv_num_heads=2, is_causal=1),
    ]
    stored = {"w": np.random.default_rng(0).normal(size=(128, 128)).astype(np.float32)}
    proto = make_model(nodes, {"x": (1, 16, 128)}, {"y": (1, 16, 128)}, stored, opset=23, ir_version=11)
    model, recipe = saved(proto, tmp_path), Recipe(target="tensorrt-rtx")
    options = QuantizeOptions(recipe=recipe)
    with pytest.raises(GateError, match="TensorRT for RTX has no Attention with float32 output") as caught:
        quantize_model(model, RandomData(samples=1), tmp_path / "q.onnx", options)
    assert "`quantize --high-precision-dtype fp16`" in caught.value.hint
    options = QuantizeOptions(recipe=replace(recipe, high_precision=HighPrecision.FP16))
    assert quantize_model(model, RandomData(samples=1), tmp_path / "q.onnx", options).quantized
    findings = validate_model(tmp_path / "q.onnx", ["tensorrt-rtx"]).findings
    assert not [each for each in findings if each.effect == "refused"]


def test_outputs_that_cannot_be_written_stop_before_any_run(model, data, tmp_path):
    seen: list[int] = []
    for options, error, message in (
        (QuantizeOptions(ranges_file=tmp_path / "absent" / "r.json"), OutputError, "absent does not exist"),
        (QuantizeOptions(plan_file=tmp_path / "plan.toml"), UsageError, r"plan\.toml must end in \.json"),
        (QuantizeOptions(ranges_file=tmp_path / "q.onnx"), UsageError, "two outputs have the same name"),
        (QuantizeOptions(ranges_file=data), UsageError, "is also an input"),
    ):
        with pytest.raises(error, match=message):
            quantize_model(model, data, tmp_path / "q.onnx", options, lambda done, _: seen.append(done))
    assert seen == []
    assert not (tmp_path / "q.onnx").exists()


def test_external_data_stays_external(data, tmp_path):
    onnx.save(conv_model(), tmp_path / "e.onnx", save_as_external_data=True, location="e.bin", size_threshold=0)
    options = QuantizeOptions(external_data=ExternalData.ALWAYS)
    report = quantize_model(tmp_path / "e.onnx", data, tmp_path / "q.onnx", options)
    inline = quantize_model(saved(conv_model(), tmp_path), data, tmp_path / "i.onnx")
    assert report.quantized == inline.quantized
    (one,), (two,) = (run(str(tmp_path / name), {"x": images()[:1]}) for name in ("q.onnx", "i.onnx"))
    assert np.array_equal(one, two)


def test_a_model_in_memory_is_quantized_and_left_alone(data, tmp_path):
    proto = conv_model()
    quantize_model(Model(proto), data, tmp_path / "q.onnx")
    assert proto == conv_model()


def test_fixed_input_shapes_are_part_of_what_ranges_belong_to(tmp_path):
    proto = make_model(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        {"x": ("n", 4)},
        {"y": ("n", 4)},
        {"w": np.eye(4, dtype=np.float32)},
    )
    path = saved(proto, tmp_path)
    recipe = Recipe(input_shapes={"x": (2, 4)})
    calibrate_to_file(path, RandomData(), tmp_path / "r.json", recipe)
    cache = CachedRanges(path=tmp_path / "r.json")
    with pytest.raises(UsageError, match="with other --input-shapes"):
        quantize_model(path, cache, tmp_path / "q.onnx")
    report: QuantizeReport = quantize_model(path, cache, tmp_path / "q.onnx", QuantizeOptions(recipe=recipe))
    assert len(report.quantized) == 2
    shape = onnx.load(tmp_path / "q.onnx").graph.input[0].type.tensor_type.shape
    assert [dim.dim_value for dim in shape.dim] == [2, 4]


def test_a_cache_that_is_empty_at_first_is_calibrated_and_checked(tmp_path):
    """A decoder of key-value caches: the cache has no rows in the first run, and grows."""
    weight = ",".join(f"{value:.3f}" for value in np.random.default_rng(0).standard_normal(64))
    model = text_model(
        f"""<ir_version: 8, opset_import: ["": 17]>
        g (float[1,2,4,8] x, float[1,2,past,8] k0) => (float[1,2,total,8] k1, float[1,2,4,total] y)
        <float[8,8] w = {{{weight}}}> {{
            h = MatMul (x, w)
            k1 = Concat <axis = 2> (k0, h)
            kt = Transpose <perm = [0, 1, 3, 2]> (k1)
            y = MatMul (h, kt)
        }}"""
    )
    data = tmp_path / "data"
    data.mkdir()
    rng = np.random.default_rng(1)
    for past in range(3):
        arrays = {"x": (1, 2, 4, 8), "k0": (1, 2, past, 8)}
        np.savez(
            data / f"{past}.npz", **{name: rng.standard_normal(s).astype(np.float32) for name, s in arrays.items()}
        )
    quantized = tmp_path / "q.onnx"
    report = quantize_model(model, data, quantized)
    assert {pair.tensor for pair in report.quantized} == {"x", "w", "h", "kt"}
    checked = check_model(quantized, baseline=model, data=data)
    assert checked.passed
    assert checked.qdq.checked == 7


def test_list_matches_shows_what_patterns_match_and_what_would_be_done():
    recipe = Recipe(selection=Selection(nodes_to_exclude=("conv[2-9]",)))
    report = list_matches(Model(conv_model()), recipe)
    assert [(match.pattern, match.nodes) for match in report.patterns] == [("conv[2-9]", ("conv2",))]
    assert [node.node for node in report.quantized] == ["conv1"]
    assert [(node.node, node.reason) for node in report.skipped] == [
        ("conv2", "excluded by --nodes-to-exclude 'conv[2-9]'")
    ]
