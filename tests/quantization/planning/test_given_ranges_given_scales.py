"""Scales that AIMET has for constants: in the model, they give the weights that AIMET's own quantizers make."""

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator
from support.paths import ROOT
from support.small import make_model

from qdqtool.engines.build.options import BuildOptions
from qdqtool.errors import UsageError
from qdqtool.jobs.build import build_engine
from qdqtool.jobs.insert import InsertReport, insert_encodings
from qdqtool.jobs.quantize import QuantizeOptions, quantize_model
from qdqtool.jobs.quantize_report import QuantizeReport
from qdqtool.models.graph.io.load import load_model
from qdqtool.models.options import WeightStorage
from qdqtool.numerics.derive import SCALE_RANGE
from qdqtool.numerics.dtypes import FLOAT16
from qdqtool.numerics.formats import get as number_format
from qdqtool.numerics.granularity import Blocked, Granularity, PerAxis, PerTensor
from qdqtool.numerics.scheme import QuantScheme
from qdqtool.quantization.planning.given_ranges import ScalesProblem, fit_scales, nearest_mode
from qdqtool.quantization.planning.placement import Selection
from qdqtool.quantization.planning.recipe import Recipe
from qdqtool.quantization.preparation.cached_ranges import CachedRanges
from qdqtool.quantization.ranges.encodings import ConstantScales, read_encodings
from qdqtool.samples.request import FileData

GOLDEN = ROOT / "tests" / "golden" / "aimet"
MODEL = GOLDEN / "model.onnx"
EVERY_PRODUCT = Selection(op_types_to_quantize=("Conv", "ConvTranspose", "MatMul", "Gemm"))


def dequantized(path: Path) -> dict[str, np.ndarray]:
    """What each stored weight is behind its DQ, by onnx's own evaluator."""
    graph = onnx.load(path).graph
    stored = {tensor.name: tensor for tensor in graph.initializer}
    found = {}
    for node in graph.node:
        if node.op_type == "DequantizeLinear" and node.input[0] in stored:
            output = helper.make_empty_tensor_value_info(node.output[0])
            one = helper.make_graph([node], "dq", [], [output], [stored[name] for name in node.input if name])
            model = helper.make_model(one, opset_imports=[helper.make_opsetid("", 23)], ir_version=11)
            (array,) = ReferenceEvaluator(model).run(None, {})
            found[node.input[0].removesuffix("_quantized")] = array
    return found


def quantized(name: str, folder: Path, **recipe: object) -> QuantizeReport:
    options = QuantizeOptions(recipe=Recipe(**recipe))
    return quantize_model(MODEL, CachedRanges(path=GOLDEN / f"{name}.encodings"), folder / "q.onnx", options)


def inserted(name: str, folder: Path) -> InsertReport:
    return insert_encodings(MODEL, GOLDEN / f"{name}.encodings", folder / "q.onnx")


def require_aimets(kind: str, found: dict[str, np.ndarray], names: str) -> None:
    """Equal but for the rounding of AIMET's float64 scales to float32."""
    assert set(found) == set(names)
    with np.load(GOLDEN / "weights.npz") as golden:
        for name, array in found.items():
            np.testing.assert_allclose(array, golden[f"{kind}/{name}"], rtol=2**-22)


@pytest.mark.parametrize(
    ("name", "mode"),
    [
        *[(f"{kind}-{version}", "int8") for kind in ("int8", "strict") for version in ("1.0.0", "2.0.0")],
        ("int8-0.6.1", "int8"),
        *[(f"{kind}-{version}", "int4") for kind in ("blocks", "lpbq", "int4") for version in ("1.0.0", "2.0.0")],
        *[(f"half-{version}", "int8-weight-only") for version in ("1.0.0", "2.0.0")],
        ("fp8-2.0.0", "fp8"),
    ],
)
def test_insert_takes_the_mode_of_the_file_and_gives_the_weights_of_aimet(name, mode, tmp_path):
    report = inserted(name, tmp_path)
    assert (report.given.mode, report.given.weights) == (mode, 2)
    require_aimets(name.split("-")[0], dequantized(tmp_path / "q.onnx"), "mg")


@pytest.mark.builder
@pytest.mark.parametrize("name", ["int8-2.0.0", "blocks-1.0.0", "lpbq-2.0.0", "fp8-2.0.0"])
def test_tensorrt_builds_what_insert_makes_of_aimet_s_files(name, tmp_path):
    pytest.importorskip("tensorrt_rtx")
    inserted(name, tmp_path)
    report = build_engine(tmp_path / "q.onnx", tmp_path / "e.engine", options=BuildOptions(timeout=120))
    assert report.bytes > 0


@pytest.mark.parametrize("name", ["int8-1.0.0", "int8-2.0.0"])
def test_channels_are_those_of_the_operator_for_convolutions_too(name, tmp_path):
    report = quantized(name, tmp_path, selection=EVERY_PRODUCT)
    assert report.calibration.given.weights == 3
    assert (
        "weight 't' has 4 scales in the file, but one is needed: its scale was computed from its values"
        in report.calibration.given.notes
    )
    found = dequantized(tmp_path / "q.onnx")
    del found["t"]  # TensorRT takes one scale for the weight of a ConvTranspose
    require_aimets("int8", found, "wmg")


def test_blocks_of_16_are_kept_though_the_mode_has_none(tmp_path):
    report = quantized("blocks-2.0.0", tmp_path, quantize_mode="int4")
    assert {pair.granularity for pair in report.quantized} == {"blocks of 16 on axis 0", "blocks of 16 on axis 1"}
    require_aimets("blocks", dequantized(tmp_path / "q.onnx"), "mg")


def test_data_beside_blocks_measures_them_and_rounds_nothing_anew(tmp_path):
    np.savez(tmp_path / "d.npz", x=np.random.default_rng(1).normal(size=(4, 4, 4, 4)).astype(np.float32))
    data = FileData(path=tmp_path / "d.npz")
    cache = CachedRanges(path=GOLDEN / "blocks-2.0.0.encodings", data=data)
    report = quantize_model(MODEL, cache, tmp_path / "q.onnx", QuantizeOptions(recipe=Recipe(quantize_mode="int4")))
    assert report.accuracy is not None
    require_aimets("blocks", dequantized(tmp_path / "q.onnx"), "mg")


def test_weights_of_other_codes_are_scaled_by_their_values_with_the_reason(tmp_path):
    report = quantized("blocks-2.0.0", tmp_path)
    assert report.calibration.given.weights == 0
    assert report.calibration.given.notes[0] == (
        "weight 'm' (and 1 more) has int4 codes in the file, but int8 is needed; --quantize-mode int4 uses such codes: "
        "its scale was computed from its values"
    )


def test_a_tensor_that_was_only_moved_has_the_range_of_its_source(tmp_path):
    entries = {each.tensor: each.scale_max for each in inserted("strict-1.0.0", tmp_path).quantized}
    found = read_encodings(GOLDEN / "strict-1.0.0.encodings").found.ranges
    assert "f" not in found
    assert np.float32(entries["f"]) == np.float32(found["d"].amax / 127)


def test_blocks_that_cannot_be_told_apart_are_refused_with_the_reason(tmp_path):
    with pytest.raises(
        UsageError, match="to quantize: weight 'm' has 128 scales in the file, but 32 on axis 1 are needed"
    ):
        inserted("blocks-0.6.1", tmp_path)


def test_a_file_of_activations_is_of_no_use_to_weights(tmp_path):
    np.savez(tmp_path / "r.npz", f=3.0, h=2.0)
    cache, options = CachedRanges(path=tmp_path / "r.npz"), QuantizeOptions(recipe=Recipe(quantize_mode="int4"))
    with pytest.raises(UsageError, match=r"does not use .*, which has ranges of activations only"):
        quantize_model(MODEL, cache, tmp_path / "q.onnx", options)


def test_float_activations_need_a_mode_of_weights_and_the_message_says_so(tmp_path):
    with pytest.raises(UsageError, match=r"no usable scales of the tensors .* 2 activations float") as caught:
        quantized("half-1.0.0", tmp_path)
    assert "--quantize-mode" in caught.value.hint


def test_other_files_are_for_int8(tmp_path):
    np.savez(tmp_path / "r.npz", f=3.0)
    assert nearest_mode(load_model(MODEL), read_encodings(tmp_path / "r.npz").found) == "int8"


def test_scales_too_small_for_float16_become_its_smallest(tmp_path):
    weights = {"w": np.random.default_rng(3).normal(size=(64, 32)).astype(np.float16)}
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    half = onnx.TensorProto.FLOAT16
    onnx.save(make_model(nodes, {"x": (4, 64)}, {"y": (4, 32)}, weights, elem_type=half), tmp_path / "m.onnx")
    (tmp_path / "e.json").write_text(
        '{"version": "2.0.0", "encodings": [{"name": "w", "output_dtype": "int8", "y_scale": 1e-30},'
        '{"name": "x", "output_dtype": "int8", "y_scale": 1e30}]}'
    )
    insert_encodings(tmp_path / "m.onnx", tmp_path / "e.json", tmp_path / "q.onnx")
    graph = onnx.load(tmp_path / "q.onnx").graph
    scales = [onnx.numpy_helper.to_array(tensor) for tensor in graph.initializer if "scale" in tensor.name]
    assert {scale.dtype for scale in scales} == {np.dtype(np.float16)}
    assert min(scale.min() for scale in scales) == SCALE_RANGE[FLOAT16][0]
    assert all(np.isfinite(scale).all() for scale in scales)


def test_scales_beyond_float32_become_its_largest(tmp_path):
    scales = {"w": [[1e300] * 16] * 4, "x": 1e300}
    entries = [{"name": name, "output_dtype": "int4", "y_scale": scale} for name, scale in scales.items()]
    entries[0] |= {"axis": 0, "block_size": 16}
    (tmp_path / "e.json").write_text(json.dumps({"version": "2.0.0", "encodings": entries}))
    weights = {"w": np.random.default_rng(3).normal(size=(64, 16)).astype(np.float32)}
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    onnx.save(make_model(nodes, {"x": (4, 64)}, {"y": (4, 16)}, weights), tmp_path / "m.onnx")
    insert_encodings(tmp_path / "m.onnx", tmp_path / "e.json", tmp_path / "q.onnx")
    found = [
        onnx.numpy_helper.to_array(t) for t in onnx.load(tmp_path / "q.onnx").graph.initializer if "scale" in t.name
    ]
    assert [scale.max() for scale in found] == [np.finfo(np.float32).max]


def scheme(granularity: Granularity, fmt: str = "int4") -> QuantScheme:
    return QuantScheme(number_format(fmt), granularity)


def fit(values: np.ndarray, granularity: Granularity, shape: tuple[int, ...], **where: int):
    given = ConstantScales("int4", np.asarray(values, np.float64), where.get("axis"), where.get("block_size"))
    return fit_scales(given, shape, scheme(granularity), "tensorrt")


def test_coarse_blocks_of_one_are_cut_into_those_that_the_target_computes_with():
    table = np.arange(1.0, 5.0).reshape(1, 4)
    granularity, scales = fit(table, Blocked(0, 32), (64, 4), axis=0, block_size=64)
    assert granularity == Blocked(0, 32)
    assert np.array_equal(scales, np.vstack([table, table]))


def test_scales_of_channels_stand_in_every_block():
    granularity, scales = fit(np.array([1.0, 2.0]), Blocked(1, 16), (2, 64), axis=0)
    assert granularity == Blocked(1, 16)
    assert np.array_equal(scales, [[1, 1, 1, 1], [2, 2, 2, 2]])
    assert np.array_equal(fit(np.array(3.0), Blocked(1, 16), (2, 64))[1], np.full((2, 4), 3.0))


def test_an_axis_may_count_from_the_end():
    assert np.array_equal(fit(np.ones(5), PerAxis(1), (3, 5), axis=-1)[1], np.ones(5))


@pytest.mark.parametrize(
    ("given", "shape", "message"),
    [
        (ConstantScales("int4", np.ones(1)), ("N", 4), "unknown shape"),
        (ConstantScales("int4", np.ones(1)), None, "unknown shape"),
        (ConstantScales("uint4", np.ones(1), problem="is asymmetric in the file"), (4,), "is asymmetric"),
    ],
)
def test_an_unknown_shape_and_asymmetric_constants_fit_nothing(given, shape, message):
    with pytest.raises(ScalesProblem, match=message):
        fit_scales(given, shape, scheme(PerTensor()), "tensorrt")


def test_a_weight_that_the_file_lacks_has_positive_scales_behind_a_q(tmp_path):
    """Only stored codes may have negative scales; the linter refuses a Q with one (QP101)."""
    document = json.loads((GOLDEN / "int4-2.0.0.encodings").read_text())
    document["encodings"] = [entry for entry in document["encodings"] if entry["name"] == "m"]
    (tmp_path / "one.encodings").write_text(json.dumps(document))
    options = QuantizeOptions(recipe=Recipe(quantize_mode="int4", target="ort-cpu"), weights=WeightStorage.QDQ)
    report = quantize_model(MODEL, CachedRanges(path=tmp_path / "one.encodings"), tmp_path / "q.onnx", options)
    assert {pair.tensor for pair in report.quantized} == {"m", "g"}
    assert all(pair.scale_min > 0 for pair in report.quantized)


SHAPE = (64, 8)
TABLE = np.arange(1.0, 33.0).reshape(4, 8)
ROWS, COLUMNS = {"axis": 0, "block_size": 16}, {"axis": 1, "block_size": 16}


@pytest.mark.parametrize(
    ("values", "granularity", "shape", "where", "message"),
    [
        (np.ones(5), PerAxis(1), (5, 5), {"axis": 0}, "has 5 scales on axis 0 in the file, but 5 on axis 1 are needed"),
        (np.ones(4), PerAxis(1), (3, 5), {}, "has 4 scales in the file, but 5 on axis 1 are needed"),
        (
            np.ones((3, 2)),
            PerAxis(0),
            (3, 8),
            {"axis": 1, "block_size": 4},
            "has blocks of 4 in the file, but one scale f",
        ),
        (np.ones(4), PerTensor(), (4,), {}, "has 4 scales in the file, but one is needed"),
        (
            np.ones((2, 8)),
            Blocked(1, 16),
            (8, 64),
            ROWS | {"block_size": 4},
            "of shape [2, 8] in the file, but [8, 16]",
        ),
        (np.ones(7), Blocked(1, 16), (8, 64), {"block_size": 16}, "of shape [7] in the file, but [8, 4]"),
        (np.ones((8, 7)), Blocked(1, 16), (8, 64), COLUMNS | {"block_size": 10}, "has blocks of 10 on axis 1 in the f"),
        (np.ones(8), Blocked(1, 16), (8, 64, 2), {"axis": 0}, "has scales of channels in the file, but 3 dimensions"),
        (np.ones(2), PerTensor(), (4,), {}, "has 2 scales in the file, but one is needed"),
        (
            np.ones(1),
            PerTensor(),
            (4,),
            {"axis": 0, "block_size": 4},
            "has blocks of 4 in the file, but one scale is needed",
        ),
        (np.ones((1, 5)), PerAxis(1), (3, 5), {}, "has 5 scales in the file, but 5 on axis 1 are needed"),
        (
            TABLE.T,
            Blocked(0, 16),
            SHAPE,
            {"block_size": 16},
            "of shape [8, 4] in the file, but [4, 8] on axis 0 is needed",
        ),
        (TABLE.ravel(), Blocked(0, 16), SHAPE, ROWS, "of shape [32] in the file, but [4, 8]"),
        (np.ones(64), Blocked(0, 16), (64, 8, 2), {"block_size": 16}, "of shape [64] in the file, but [4, 8, 2]"),
        (TABLE, Blocked(0, 16), SHAPE, COLUMNS, "of shape [4, 8] in the file, but [4, 8] on axis 0"),
        (TABLE[:1], Blocked(0, 16), SHAPE, ROWS, "of shape [1, 8] in the file, but [4, 8]"),
        (TABLE[:, :3], Blocked(0, 16), SHAPE, ROWS, "of shape [4, 3] in the file, but [4, 8]"),
        (np.ones((4, 3, 2)), Blocked(0, 16), (64, 8, 2), ROWS, "of shape [4, 3, 2] in the file, but [4, 8, 2]"),
        (np.ones((1, 8)), Blocked(0, 16), (40, 8), ROWS | {"block_size": 40}, "has one block in the file, and such"),
        (
            *(np.ones((7, 8)), Blocked(0, 16), SHAPE, ROWS | {"block_size": 10}),
            "has blocks of 10 on axis 0 in the file, which tensorrt does not support",
        ),
    ],
)
def test_what_does_not_fit_is_told_in_one_sentence(values, granularity, shape, where, message):
    with pytest.raises(ScalesProblem) as caught:
        fit(values, granularity, shape, **where)
    assert str(caught.value).removeprefix("has block scales ").startswith(message)


@pytest.mark.parametrize("values", [np.float64(3), np.full(1, 3.0), np.full((1, 1), 3.0)])
@pytest.mark.parametrize(
    ("granularity", "shape", "expected"),
    [
        (PerTensor(), (4, 6), ()),
        (PerAxis(1), (4, 6), (6,)),
        (Blocked(1, 16), (4, 64), (4, 4)),
        (Blocked(1, 16), (2, 64, 3), (2, 4, 3)),
    ],
)
def test_one_scale_serves_every_channel_and_block(values, granularity, shape, expected):
    fitted, scales = fit(values, granularity, shape)
    assert fitted == granularity
    np.testing.assert_array_equal(scales, np.full(expected, 3.0))


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("size", [16, 32, 64])
@pytest.mark.parametrize("form", ["table", "flat", "last axis", "one for all channels"])
def test_every_element_keeps_the_scale_that_the_file_gives_it(axis, size, form):
    """As blocks of the file where there are two of them or more, else as blocks of the wanted size."""
    shape = (64, 6) if axis == 0 else (6, 64)
    table = np.arange(1.0, 1 + 6 * 64 // size).reshape((64 // size, 6) if axis == 0 else (6, 64 // size))
    table = table.max(1 - axis, keepdims=True) if form == "one for all channels" else table
    whole = np.broadcast_to(np.repeat(table, size, axis), shape)
    where = {"block_size": size} | ({"axis": axis - 2} if form == "last axis" else {})
    # A flat list has the blocks of the first output channel first.
    given = table.T.ravel() if form == "flat" and axis == 0 else table.ravel() if form == "flat" else table
    granularity, scales = fit(given, Blocked(axis, 16), shape, **where)
    assert granularity == Blocked(axis, size if size < 64 else 16)
    np.testing.assert_array_equal(np.repeat(scales, granularity.block_size, axis), whole)
