"""Insert with every number format and every way to store scales: valid ONNX, the reference's codes, undone by strip."""

import json
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from support.small import make_model, run
from support.trt_verdict import TrtOracle

from qdqtool.errors import UsageError
from qdqtool.jobs.insert import InsertOptions, insert_plan
from qdqtool.jobs.inspect import inspect_model
from qdqtool.jobs.strip import strip_model
from qdqtool.jobs.validate import validate_model
from qdqtool.models import targets
from qdqtool.models.options import WeightStorage
from qdqtool.numerics import formats

QUANTIZABLE = [name for name in formats.names() if formats.get(name).first_opset.quantize is not None]
W = np.random.default_rng(1).uniform(-1, 1, (64, 32)).astype(np.float32)
X = {"x": np.random.default_rng(2).uniform(-1, 1, (2, 64)).astype(np.float32)}
NVFP4 = {"scale_format": "float8e4m3fn", "scale_scale": 0.001, "block_size": 16}
MX = {"scale_format": "float8e8m0", "block_size": 32}
OPSETS = {"plain": 0, "float8e4m3fn": 23, "float8e8m0": 24}


def model_of(elem_type: int) -> onnx.ModelProto:
    w = W.astype(helper.tensor_dtype_to_np_dtype(elem_type))
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"], name="matmul")]
    return make_model(nodes, {"x": (2, 64)}, {"y": (2, 32)}, {"w": w}, elem_type=elem_type)


def entry(fmt: str, **keys: Any) -> dict[str, Any]:
    """The weight with a scale at which nothing clips; unsigned formats get their middle code as zero point."""
    found = formats.get(fmt)
    zero = (found.high + 1) // 2 if found.low == 0 else 0
    room = min(zero - found.low, found.high - zero)
    chosen = {"tensor": "w", "format": fmt, "axis": 0, "scale": float(np.float32(1 / room)), **keys}
    if "scale_format" in chosen:
        chosen["scale"] = 2.0 ** np.ceil(np.log2(chosen["scale"]))
    if "scale_scale" in chosen:
        chosen["scale_scale"] = chosen["scale"] / 96  # a code of its own, and room above
    return {**chosen, "zero_point": int(zero)} if zero else chosen


def insert(
    folder: Path, model: onnx.ModelProto, *entries: dict[str, Any], weights: WeightStorage = WeightStorage.PACKED
) -> onnx.ModelProto:
    (folder / "m.onnx").write_bytes(model.SerializeToString())
    (folder / "p.json").write_text(json.dumps({"schema_version": 1, "tensors": list(entries)}))
    insert_plan(folder / "m.onnx", folder / "p.json", folder / "q.onnx", InsertOptions(weights=weights))
    result = onnx.load(folder / "q.onnx")
    onnx.checker.check_model(result, full_check=True)
    return result


def reference_codes(model: onnx.ModelProto) -> np.ndarray:
    """What onnx's own evaluator quantizes the weight to."""
    quantizer = next(node for node in model.graph.node if node.op_type == "QuantizeLinear" and node.input[0] == "w")
    graph = helper.make_graph(
        [node for node in model.graph.node if node is quantizer or node.output[0] == "w_scale"],
        "alone",
        [],
        [onnx.ValueInfoProto(name=quantizer.output[0])],
        list(model.graph.initializer),
    )
    return np.asarray(ReferenceEvaluator(helper.make_model(graph, opset_imports=model.opset_import)).run(None, {})[0])


def stored(model: onnx.ModelProto, name: str) -> np.ndarray:
    return next(numpy_helper.to_array(tensor) for tensor in model.graph.initializer if tensor.name == name)


@pytest.mark.parametrize("elem_type", [TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16])
@pytest.mark.parametrize("scales", [{"block_size": 16}, NVFP4, MX], ids=["plain", "float8e4m3fn", "float8e8m0"])
@pytest.mark.parametrize("fmt", QUANTIZABLE)
def test_every_format_with_every_kind_of_scale(
    tmp_path: Path, fmt: str, scales: dict[str, Any], elem_type: int
) -> None:
    wanted = entry(fmt, **scales)
    qdq = insert(tmp_path, model_of(elem_type), wanted, weights=WeightStorage.QDQ)
    packed = insert(tmp_path, model_of(elem_type), wanted)
    first = formats.get(fmt).first_opset.quantize or 0

    needs = OPSETS[scales.get("scale_format", "plain")] if elem_type != TensorProto.FLOAT or scales is MX else 0
    assert packed.opset_import[0].version == max(first, needs, 21)
    codes = stored(packed, "w_quantized")
    assert codes.tobytes() == reference_codes(qdq).tobytes()
    if _runs_in_onnxruntime(fmt, scales, elem_type):
        assert run(packed, X)[0].tobytes() == run(qdq, X)[0].tobytes()
    strip_model(tmp_path / "q.onnx", tmp_path / "s.onnx")
    plain = onnx.load(tmp_path / "s.onnx")
    assert [node.op_type for node in plain.graph.node] == ["MatMul"]
    assert [tensor.name for tensor in plain.graph.initializer] == ["w"]
    undone = stored(plain, "w").astype(np.float64)
    roundoff = {TensorProto.FLOAT: 2.0**-23, TensorProto.FLOAT16: 2.0**-10, TensorProto.BFLOAT16: 2.0**-7}[elem_type]
    before = stored(model_of(elem_type), "w").astype(np.float64)
    limit = wanted["scale"] * _half_gap(before / wanted["scale"], fmt)
    # beside the half step: the scale, the quotient and the product are each rounded to the model's type
    assert np.all(np.abs(undone - before) <= limit + 3 * roundoff * np.abs(before))


def _half_gap(values: np.ndarray, fmt: str) -> np.ndarray:
    """Half the distance between the two codes around each value."""
    found = formats.get(fmt)
    if found.kind == "integer":
        return np.full(values.shape, 0.5)
    grid = np.arange(1 << found.bits, dtype=np.uint8).view(found.dtype).astype(np.float64)
    grid = np.unique(grid[np.isfinite(grid)])
    above = np.clip(np.searchsorted(grid, values), 1, len(grid) - 1)
    return (grid[above] - grid[above - 1]) / 2


def _runs_in_onnxruntime(fmt: str, scales: dict[str, Any], elem_type: int) -> bool:
    """It divides float16 in float32, so only float32 models can be compared in every bit."""
    plain = "scale_format" not in scales and elem_type == TensorProto.FLOAT
    return plain and fmt in targets.get("ort-cpu").quantize_types


def test_nvfp4_is_two_dequantize_nodes(tmp_path: Path) -> None:
    model = insert(tmp_path, model_of(TensorProto.FLOAT), {**entry("float4e2m1", **NVFP4), "scale": 0.25})
    scale, weight, _ = model.graph.node
    assert list(scale.input) == ["w_scale_quantized", "w_scale_scale"]
    assert list(weight.input) == ["w_quantized", "w_scale"]
    assert stored(model, "w_scale_quantized").dtype == ml_dtypes.float8_e4m3fn
    assert stored(model, "w_scale_scale").dtype == np.float32
    assert stored(model, "w_scale_scale").shape == ()
    assert {a.name: a.i for a in weight.attribute} == {"axis": 0, "block_size": 16}


def test_inspect_tells_scales_from_weights(tmp_path: Path) -> None:
    insert(tmp_path, model_of(TensorProto.FLOAT), entry("float4e2m1", **NVFP4))
    found = inspect_model(tmp_path / "q.onnx").groups
    assert {(group.kind, group.format) for group in found} == {("weight", "float4e2m1"), ("scale", "float8e4m3fn")}


def test_scales_are_rounded_to_their_format_before_anything_is_quantized(tmp_path: Path) -> None:
    # 0.3 / 0.01 = 30, which e4m3fn has; 0.31 / 0.01 = 31 is a tie of 30 and 32: 32
    keys = {"tensor": "w", "format": "float4e2m1", "axis": 0, **NVFP4, "scale_scale": 0.01}
    exact = insert(tmp_path, model_of(TensorProto.FLOAT), {**keys, "scale": 0.32})
    rounded = insert(tmp_path, model_of(TensorProto.FLOAT), {**keys, "scale": 0.31})
    assert stored(rounded, "w_scale_quantized").astype(np.float32).max() == 32
    assert stored(rounded, "w_quantized").tobytes() == stored(exact, "w_quantized").tobytes()
    mx = {"tensor": "w", "format": "float8e4m3fn", "axis": 0, **MX}
    one, near = (insert(tmp_path, model_of(TensorProto.FLOAT), {**mx, "scale": s}) for s in (0.0078125, 0.008))
    assert stored(near, "w_scale").tobytes() == stored(one, "w_scale").tobytes()
    assert stored(near, "w_quantized").tobytes() == stored(one, "w_quantized").tobytes()


@pytest.mark.parametrize("scales", [NVFP4, MX], ids=["nvfp4", "mx"])
@pytest.mark.parametrize("elem_type", [TensorProto.FLOAT, TensorProto.FLOAT16])
def test_activations_too(tmp_path: Path, scales: dict[str, Any], elem_type: int) -> None:
    keys = {**entry("float4e2m1", **scales), "tensor": "x", "axis": 1}
    model = insert(tmp_path, model_of(elem_type), keys)
    feeds = {"x": X["x"].astype(helper.tensor_dtype_to_np_dtype(elem_type))}
    (y,) = ReferenceEvaluator(model).run(None, feeds)
    grid = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6]) * keys["scale"]
    nearest = grid[np.argmin(np.abs(np.abs(feeds["x"].astype(np.float64))[..., None] - grid), axis=-1)]
    expected = (nearest * np.sign(feeds["x"])) @ stored(model, "w").astype(np.float64)
    np.testing.assert_allclose(y.astype(np.float64), expected, atol=0.02 if elem_type == TensorProto.FLOAT16 else 1e-5)


def test_activation_with_two_dequantizers_is_stripped(tmp_path: Path) -> None:
    keys = {**entry("float4e2m1", **NVFP4), "tensor": "x", "axis": 1}
    insert(tmp_path, model_of(TensorProto.FLOAT), keys)
    report = strip_model(tmp_path / "q.onnx", tmp_path / "s.onnx")
    assert sorted(done.kind for done in report.removed) == ["pair", "scale"]
    assert report.kept == ()
    plain = onnx.load(tmp_path / "s.onnx")
    assert plain.graph.node == model_of(TensorProto.FLOAT).graph.node
    assert [tensor.name for tensor in plain.graph.initializer] == ["w"]


@pytest.mark.builder
def test_tensorrt_for_rtx_builds_nvfp4_and_refuses_e8m0(tmp_path: Path) -> None:
    oracle = TrtOracle()
    try:
        for elem_type in (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16):
            weight = entry("float4e2m1", **NVFP4)
            both = weight, {**weight, "tensor": "x", "axis": 1}
            assert oracle.judge(insert(tmp_path, model_of(elem_type), weight)).accepted, elem_type
            assert oracle.judge(insert(tmp_path, model_of(elem_type), *both)).accepted, elem_type
            assert not oracle.judge(insert(tmp_path, model_of(elem_type), entry("float8e4m3fn", **MX))).accepted
    finally:
        oracle.close()


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"scale_format": "float8e4m3fn"}, "scale_scale is absent"),
        ({"scale_scale": 0.1}, "scale_scale needs scale_format"),
        ({"scale_format": "float8e8m0", "scale_scale": 0.1}, "stores scales as they are"),
        ({"scale_format": "int32", "scale_scale": 0.1}, "scale_format is int32, which cannot store scales"),
        ({"scale_format": "float8e8m3"}, "unknown; legal: .*did you mean 'float8e8m0'"),
        ({"scale_format": "float8e4m3fn", "scale_scale": -1.0}, "scale is -1; every scale must be finite"),
        ({"scale_format": "float8e4m3fn", "scale_scale": 1e-6}, "above 0.000448, the largest that float8e4m3fn holds"),
        (
            {"scale_format": "float8e4m3fn", "scale_scale": 1e3},
            "is 0 when stored as float8e4m3fn with scale_scale 1000",
        ),
        ({"scale_format": 5}, "Expected `?'?str"),
    ],
)
def test_wrong_scale_formats_are_refused(tmp_path: Path, keys: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        insert(tmp_path, model_of(TensorProto.FLOAT), {"tensor": "w", "format": "int8", "scale": 0.5, **keys})


@pytest.mark.parametrize(
    ("keys", "message", "hint"),
    [
        ({"format": "uint8", "zero_point": 128}, "tensor 'w': tensorrt takes no uint8", "int8 with zero point 0"),
        ({"format": "int16"}, "tensor 'w': tensorrt takes no int16", "none; leave the tensor in float"),
        ({"format": "int4", "axis": 0, "block_size": 48}, "64 elements in blocks of 48", "blocks of 32"),
    ],
)
def test_a_target_refuses_with_the_nearest_alternative(
    tmp_path: Path, keys: dict[str, Any], message: str, hint: str
) -> None:
    (tmp_path / "m.onnx").write_bytes(model_of(TensorProto.FLOAT).SerializeToString())
    plan = {"schema_version": 1, "tensors": [{"tensor": "w", "scale": 0.5, **keys}]}
    (tmp_path / "p.json").write_text(json.dumps(plan))
    files = tmp_path / "m.onnx", tmp_path / "p.json", tmp_path / "q.onnx"
    with pytest.raises(UsageError, match=message) as caught:
        insert_plan(*files, InsertOptions(targets=("onnx", "tensorrt")))
    assert hint in (caught.value.hint or "")
    assert not files[2].exists()
    report = insert_plan(*files)
    assert [found.target for found in report.refused_by] == ["tensorrt", "tensorrt-rtx"]
    with pytest.raises(UsageError, match="target 'tensort' is unknown"):
        insert_plan(*files, InsertOptions(targets=("tensort",)))


def test_what_the_linter_says_of_the_result_agrees_with_the_remark(tmp_path: Path) -> None:
    """Plans without a remark about TensorRT pass its linter; those with one do not."""
    for fmt in QUANTIZABLE:
        for scales in ({"block_size": 16}, NVFP4, MX):
            (tmp_path / "m.onnx").write_bytes(model_of(TensorProto.FLOAT).SerializeToString())
            plan = {"schema_version": 1, "tensors": [entry(fmt, **scales)]}
            (tmp_path / "p.json").write_text(json.dumps(plan))
            report = insert_plan(tmp_path / "m.onnx", tmp_path / "p.json", tmp_path / "q.onnx")
            refused = {found.target for found in report.refused_by}
            for target in ("tensorrt", "tensorrt-rtx"):
                errors = [f for f in validate_model(tmp_path / "q.onnx", [target]).findings if f.severity == "error"]
                assert bool(errors) == (target in refused), (fmt, scales, errors)
