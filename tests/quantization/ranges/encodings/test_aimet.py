"""AIMET's encodings, as AIMET itself writes them (``tests/golden/aimet``), and damaged ones."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.paths import ROOT

from qdqtool.errors import UsageError
from qdqtool.quantization.ranges.encodings import ConstantScales, Encodings, read_encodings, recognize
from qdqtool.quantization.ranges.encodings.aimet import FORMAT

GOLDEN = ROOT / "tests" / "golden" / "aimet"
FILES = sorted(path.name for path in GOLDEN.glob("*.encodings"))


def golden(name: str) -> Encodings:
    read = read_encodings(GOLDEN / f"{name}.encodings")
    assert read.format == "aimet"
    return read.found


def written(folder: Path, document: Any) -> Path:
    path = folder / "model.encodings"
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return path


def read(folder: Path, *entries: dict[str, Any], version: str = "2.0.0") -> Encodings:
    return read_encodings(written(folder, {"version": version, "encodings": list(entries)})).found


def test_all_versions_are_there():
    assert len(FILES) == 15
    assert {name.rsplit("-", 1)[1].removesuffix(".encodings") for name in FILES} == {"0.6.1", "1.0.0", "2.0.0"}


@pytest.mark.parametrize("name", FILES)
def test_what_aimet_writes_is_recognized(name):
    assert recognize(GOLDEN / name) == "aimet"


@pytest.mark.parametrize("kind", ["int8", "strict", "blocks", "lpbq", "int4"])
def test_all_versions_give_the_same_ranges(kind):
    newest, *older = (
        golden(f"{kind}-{version}") for version in ("2.0.0", "1.0.0", "0.6.1") if f"{kind}-{version}.encodings" in FILES
    )
    for found in older:
        assert found.ranges == {name: newest.ranges[name] for name in found.ranges}
        assert {name: found.remarks.get(name) for name in found.ranges} == {
            name: newest.remarks.get(name) for name in found.ranges
        }


@pytest.mark.parametrize("kind", ["int8", "strict", "int4", "half"])
def test_all_versions_give_the_same_scales_of_channels(kind):
    one, two = golden(f"{kind}-1.0.0"), golden(f"{kind}-2.0.0")
    assert set(one.constants) == {"w", "t", "m", "g"}
    for name, scales in one.constants.items():
        assert np.array_equal(scales.values, two.constants[name].values)
        assert scales.format == two.constants[name].format
    assert {name: two.constants[name].axis for name in one.constants} == {"w": 0, "t": 1, "m": 1, "g": 0}


@pytest.mark.parametrize("kind", ["blocks", "lpbq"])
def test_block_scales_are_listed_by_output_channel_before_version_2(kind):
    one, two = golden(f"{kind}-1.0.0").constants, golden(f"{kind}-2.0.0").constants
    assert two["m"].values.shape == (4, 32)  # MatMul: input channels first
    assert two["g"].values.shape == (16, 2)  # Gemm with transB: output channels first
    assert np.array_equal(one["m"].values, two["m"].values.T.reshape(-1))
    assert np.array_equal(one["g"].values, two["g"].values.reshape(-1))
    assert [(two[name].axis, two[name].block_size, one[name].block_size) for name in "mg"] == [(0, 16, 16), (1, 16, 16)]


def test_asymmetric_activations_cover_what_aimet_covers():
    document = json.loads((GOLDEN / "int8-0.6.1.encodings").read_text())["activation_encodings"]
    for found in (golden("int8-0.6.1"), golden("int8-1.0.0"), golden("int8-2.0.0")):
        for name, (entry,) in document.items():
            seen = found.ranges[name]
            assert (seen.min, seen.max) == pytest.approx((entry["min"], entry["max"]), rel=1e-12)
            assert found.remarks[name] == "asymmetric in the file: range made symmetric"


@pytest.mark.parametrize("version", ["1.0.0", "2.0.0"])
def test_strictly_symmetric_ones_keep_their_scale(version):
    found = golden(f"strict-{version}")
    document = json.loads((GOLDEN / "strict-1.0.0.encodings").read_text())["activation_encodings"]
    for entry in document:
        assert found.ranges[entry["name"]].amax == 127 * entry["scale"][0]
    assert not found.remarks


def test_ranges_of_fp8_reach_to_the_largest_code():
    found = golden("fp8-2.0.0")
    document = json.loads((GOLDEN / "fp8-2.0.0.encodings").read_text())["encodings"]
    scales = {entry["name"]: entry["y_scale"] for entry in document if not isinstance(entry["y_scale"], list)}
    assert {name: seen.amax for name, seen in found.ranges.items()} == {
        name: 448 * scale for name, scale in scales.items()
    }


def test_biases_are_named_and_nothing_more():
    found = golden("int8-2.0.0")
    assert {"b", "gb"} <= set(found.names)
    assert not {"b", "gb"} & (set(found.ranges) | set(found.constants))


def test_activations_that_aimet_leaves_in_float_have_no_range():
    found = golden("half-1.0.0")
    assert not found.ranges
    assert set(found.remarks.values()) == {"float in the file: unquantized"}


def test_symmetric_codes_keep_their_scale_however_they_are_counted(tmp_path):
    found = read(
        tmp_path,
        {"name": "a", "output_dtype": "uint8", "y_scale": 0.5, "y_zero_point": 128},
        {"name": "b", "output_dtype": "int8", "y_scale": 0.5},
        {"name": "c", "output_dtype": "int8", "y_scale": [0.5], "y_zero_point": [-1]},
        {"name": "d", "output_dtype": "int16", "y_scale": 1.0},
    )
    assert {name: seen.amax for name, seen in found.ranges.items()} == {"a": 63.5, "b": 63.5, "c": 63.5, "d": 32767.0}
    assert found.remarks == {"d": "not of 8 bits in the file: range used for 8 bits"}
    assert {scales.format for scales in found.constants.values()} == {"int8", "int16"}


def test_asymmetric_constants_are_not_usable(tmp_path):
    found = read(
        tmp_path, {"name": "w", "output_dtype": "uint8", "y_scale": [0.5, 1], "y_zero_point": [3, 4], "axis": 0}
    )
    assert found.constants["w"].problem == "is asymmetric in the file"
    assert not found.ranges


ENTRY = {"name": "x", "output_dtype": "int8", "y_scale": 1.0}
OLD = {"name": "x", "dtype": "INT", "bw": 8, "enc_type": "PER_TENSOR", "scale": [1.0], "offset": [-128]}


def old(**changes: Any) -> str:
    return json.dumps({"version": "1.0.0", "activation_encodings": [{**OLD, **changes}], "param_encodings": []})


def new(**changes: Any) -> str:
    return json.dumps({"version": "2.0.0", "encodings": [{**ENTRY, **changes}]})


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ('{"version": "3.0.0", "encodings": []}', r"version 3\.0\.0 is not read; 0\.6\.1, 1\.0\.0 and 2\.0\.0 are"),
        ('{"version": "2.0.0", "encodings": {}}', "encodings is no list"),
        ('{"version": "2.0.0", "encodings": [{"output_dtype": "int8"}]}', "an entry without a name"),
        (json.dumps({"version": "2.0.0", "encodings": [ENTRY, ENTRY]}), "encodings names tensor 'x' twice"),
        (new(output_dtype="int99"), "bitwidth 99"),
        (new(output_dtype="string"), "has the output_dtype 'string'"),
        (new(output_dtype=None), "has the output_dtype 'None'"),
        (new(y_scale=None), "has the y_scale None; it must be numbers"),
        (new(y_scale=[[1.0], [1.0, 2.0]]), "must be numbers"),
        (new(y_scale="1"), "must be numbers"),
        (new(y_scale=[True]), "must be numbers"),
        (new(y_scale=[]), "must be numbers"),
        (new(y_scale=-1), "a scale above 0"),
        (new(y_scale=10**400), "must be numbers"),
        (new(y_zero_point=[1, 2]), "has 2 numbers as y_zero_point; it has 1 scales"),
        (
            new(per_block_int_scale=[[1]] * 3, per_channel_float_scale=[[1.0, 2.0]]),
            r"shape \[1, 2\] and of blocks in \[3,",
        ),
        ('{"version": "2.0.0", "encodings": [{"name": "x", "output_dtype": "int8", "y_scale": NaN}]}', "holds NaN"),
        ('{"version": "2.0.0", "encodings": [' + "[" * 100_000, "nested too deeply|Expecting value"),
        ('{"version": "2.0.0", "encodings": [{"name": "x", "y_sc', "is not valid JSON: Unterminated string"),
        ('{"activation_encodings": 3}', "neither a list nor an object"),
        ('{"activation_encodings": [{"bw": 8}]}', "an entry without a name"),
        ('{"activation_encodings": {"x": {"input": {}}}}', "tensor 'x' has no list of encodings"),
        ('{"activation_encodings": {"x": [{"bitwidth": 8, "scale": 0, "offset": 0}]}}', "a scale above 0"),
        ('{"activation_encodings": {"x": [{"bitwidth": 99, "scale": 1, "offset": 0}]}}', "bitwidth 99; 2 to 32"),
        ('{"activation_encodings": {"x": [{"bitwidth": 8, "scale": "1", "offset": 0}]}}', "must be numbers"),
        ('{"activation_encodings": {"x": [], "x": []}}', "has the name 'x' twice"),
        (old(enc_type="VECTOR"), "has enc_type 'VECTOR'"),
        (old(scale=[1, 2]), "has 2 scales and 1 offsets"),
        (old(scale=[1, 2], offset=[-128, -128]), "activation 'x' has 2 scales; it must have one"),
        (old(zero_point_shift=[0.5, 0.5]), "has 2 numbers as zero_point_shift"),
        (
            old(enc_type="LPBQ", compressed_bw=4, scale=[1, 2], per_block_int_scale=[1, 2, 3]),
            "2 scales of channels and 3",
        ),
        (new(per_block_int_scale=[[1e200]], per_channel_float_scale=[[1e200]]), "block scales from inf to inf"),
        (old(enc_type="LPBQ", scale=[1, 2], per_block_int_scale=[1, 2]), "bitwidth None"),
    ],
)
def test_damaged_files_are_refused_in_one_line(document, message, tmp_path):
    with pytest.raises(UsageError, match=message) as caught:
        read_encodings(written(tmp_path, document))
    assert "\n" not in caught.value.message
    assert len(caught.value.message) < 500


def refused(folder: Path, document: Any) -> UsageError:
    path = written(folder, document)
    with pytest.raises(UsageError) as caught:
        read_encodings(path)
    assert caught.value.message.startswith(f"AIMET encodings {path}: ")
    caught.value.message = caught.value.message.removeprefix(f"AIMET encodings {path}: ")
    return caught.value


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"version": "3" * 30, "encodings": []}, f"version {'3' * 20} is not read; 0.6.1, 1.0.0 and 2.0.0 are"),
        (
            old(enc_type="V" * 30),
            f"tensor 'x' has enc_type '{'V' * 20}'; LPBQ, PER_BLOCK, PER_CHANNEL, PER_TENSOR are read",
        ),
        (new(output_dtype="v" * 30), f"tensor 'x' has the output_dtype '{'v' * 20}'; integers and floats are read"),
        (new(axis="v" * 30), f"tensor 'x' has the axis {'v' * 20}; it must be a whole number"),
        (new(axis=True), "tensor 'x' has the axis True; it must be a whole number"),
        (new(axis=0.0), "tensor 'x' has the axis 0.0; it must be a whole number"),
        (new(block_size=0), "tensor 'x' has the block_size 0; it must be a whole number from 1"),
        (old(block_size=0), "tensor 'x' has the block_size 0; it must be a whole number from 1"),
        (new(output_dtype="int1"), "tensor 'x' has bitwidth 1; 2 to 32 is legal"),
        (new(output_dtype="uint33"), "tensor 'x' has bitwidth 33; 2 to 32 is legal"),
        (new(output_dtype="int100"), "tensor 'x' has the output_dtype 'int100'; integers and floats are read"),
        (new(y_scale=[1, 2, 3], y_zero_point=[0, 0]), "tensor 'x' has 2 numbers as y_zero_point; it has 3 scales"),
        ({"param_encodings": {"x": 3}}, "tensor 'x' has no list of encodings"),
        ({"param_encodings": {"x": []}}, "tensor 'x' has no list of encodings"),
        ({"param_encodings": {"x": [{}, 3]}}, "tensor 'x' has no list of encodings"),
        ({"param_encodings": 3}, "param_encodings is neither a list nor an object"),
        ({"param_encodings": [3]}, "param_encodings has an entry without a name"),
        ({"param_encodings": [{"name": 3}]}, "param_encodings has an entry without a name"),
    ],
)
def test_messages_quote_what_is_wrong(document, message, tmp_path):
    assert refused(tmp_path, document).message == message


@pytest.mark.parametrize(
    ("keys", "known"),
    [
        ({"activation_encodings"}, True),
        ({"param_encodings"}, True),
        ({"version", "encodings"}, True),
        ({"version"}, False),
        ({"encodings"}, False),
        (set(), False),
    ],
)
def test_a_file_is_known_by_its_keys(keys, known):
    assert FORMAT.recognizes(json.dumps(dict.fromkeys([*keys, "more"])).encode()) is known


def test_nothing_is_written():
    assert (FORMAT.title, FORMAT.can_write, FORMAT.keeps_ends) == ("AIMET encodings", False, True)
    with pytest.raises(UsageError, match="AIMET encodings are not written"):
        FORMAT.write({})


def constant(folder: Path, **changes: Any) -> ConstantScales:
    entry = {**OLD, "name": "w", **changes}
    return read_encodings(written(folder, {"param_encodings": [entry]})).found.constants["w"]


def test_block_scales_of_version_1_are_products_by_channel(tmp_path):
    steps = {"enc_type": "LPBQ", "compressed_bw": 4, "block_size": 1, "per_block_int_scale": [1, 2, 3, 4, 5, 6]}
    found = constant(tmp_path, scale=[0.5, 2.0], offset=[0, 0], **steps)
    assert found.values.tolist() == [0.5, 1.0, 1.5, 8.0, 10.0, 12.0]
    assert (found.format, found.axis, found.block_size, found.problem) == ("int4", None, 1, "")
    odd = {**steps, "per_block_int_scale": [1, 2, 3]}
    document = {"param_encodings": [{**OLD, "scale": [0.5, 2.0], **odd}]}
    assert refused(tmp_path, document).message == "tensor 'x' has 2 scales of channels and 3 of blocks"
    document = {"param_encodings": [{**OLD, "scale": [[0.5], [2.0]], **steps}]}
    assert refused(tmp_path, document).message == "tensor 'x' has 2 scales of channels and 6 of blocks"


@pytest.mark.parametrize(
    ("by_channel", "by_block", "product"),
    [
        ([[0.5], [2.0]], [[1, 2], [3, 4]], [[0.5, 1.0], [6.0, 8.0]]),
        ([[0.5, 2.0]], [[1, 2], [3, 4]], [[0.5, 4.0], [1.5, 8.0]]),
        ([[0.5]], [[1, 2, 3]], [[0.5, 1.0, 1.5]]),
    ],
)
def test_block_scales_of_version_2_are_products_along_equal_dimensions(by_channel, by_block, product, tmp_path):
    scales = {"per_channel_float_scale": by_channel, "per_block_int_scale": by_block}
    entry = {"name": "w", "output_dtype": "int4", **scales, "axis": 1, "block_size": 8}
    found = read(tmp_path, entry).constants["w"]
    assert found.values.tolist() == product
    assert (found.format, found.axis, found.block_size) == ("int4", 1, 8)


@pytest.mark.parametrize(("by_channel", "shape"), [([0.5], [1]), ([[1, 1, 1]], [1, 3]), ([[1], [1], [1]], [3, 1])])
def test_block_scales_of_other_shapes_are_refused(by_channel, shape, tmp_path):
    document = new(per_channel_float_scale=by_channel, per_block_int_scale=[[1, 2], [3, 4]])
    assert refused(tmp_path, document).message == (
        f"tensor 'x' has scales of channels in shape {shape} and of blocks in [2, 2]"
    )


@pytest.mark.parametrize(("by_channel", "by_block", "ends"), [(1e200, 1e200, "inf to inf"), (1e-200, 1e-200, "0 to 0")])
def test_block_scales_are_finite_and_above_0(by_channel, by_block, ends, tmp_path):
    document = new(per_channel_float_scale=[by_channel], per_block_int_scale=[by_block])
    assert refused(tmp_path, document).message == f"tensor 'x' has block scales from {ends}; they must be finite"


@pytest.mark.parametrize(
    ("shift", "problem"), [(None, ""), (0.0, ""), ([0.0, 0.0], ""), (0.5, "is asymmetric in the file"), ([0, 1], "")]
)
def test_the_shift_of_version_1_is_added_to_the_offsets(shift, problem, tmp_path):
    found = constant(tmp_path, enc_type="PER_CHANNEL", scale=[1, 2], offset=[-128, -128], zero_point_shift=shift)
    assert found.problem == problem


@pytest.mark.parametrize(
    ("dtype", "zero_point", "ends"),
    [
        ("int8", 3, (-131.0, 124.0)),
        ("uint8", 3, (-3.0, 252.0)),
        ("uint8", [200], (-200.0, 55.0)),
        ("int4", -2, (-6.0, 9.0)),
        ("uint16", None, (0.0, 65535.0)),
    ],
)
def test_zero_points_of_version_2_are_those_of_quantizelinear(dtype, zero_point, ends, tmp_path):
    found = read(tmp_path, {**ENTRY, "output_dtype": dtype, "y_zero_point": zero_point})
    assert (found.ranges["x"].min, found.ranges["x"].max) == ends
    assert found.remarks == {"x": "asymmetric in the file: range made symmetric"}


@pytest.mark.parametrize("dtype", ["float16", "float32", "bfloat16"])
def test_floats_without_a_scale_stay_float(dtype, tmp_path):
    found = read(tmp_path, {"name": "x", "output_dtype": dtype})
    assert (found.ranges, found.constants, found.formats) == ({}, {}, {"x": "float"})
    assert found.remarks == {"x": "float in the file: unquantized"}


@pytest.mark.parametrize(
    "section",
    [
        [{"name": "x", "dtype": "FLOAT"}],
        [{"name": "x"}],
        {"x": [{"dtype": "float", "bitwidth": 16}]},
        {"x": [{"dtype": "int", "bitwidth": 8, "scale": 1, "offset": 0}, {"dtype": "float"}]},
    ],
)
def test_older_versions_name_floats_by_their_type(section, tmp_path):
    found = read_encodings(written(tmp_path, {"activation_encodings": section})).found
    assert (found.ranges, found.formats) == ({}, {"x": "float"})


def test_version_0_6_has_an_encoding_for_each_channel(tmp_path):
    parts = [{"bitwidth": 8, "dtype": "INT", "scale": scale, "offset": -128} for scale in (0.5, 2.0)]
    found = read_encodings(written(tmp_path, {"param_encodings": {"w": parts}})).found
    assert found.constants["w"].values.tolist() == [0.5, 2.0]
    assert found.ranges == {}
    single = {"x": [{"bitwidth": 8, "scale": 0.5, "offset": -128}]}
    found = read_encodings(written(tmp_path, {"activation_encodings": single, "param_encodings": {}})).found
    assert found.ranges["x"].amax == 63.5
    assert (found.constants, found.names) == ({}, ("x",))
    two = refused(tmp_path, {"activation_encodings": {"x": parts}})
    assert two.message == "activation 'x' has 2 scales; it must have one"


def test_a_bias_of_version_2_has_a_format_only(tmp_path):
    found = read(tmp_path, {**ENTRY, "output_dtype": "int32"})
    assert (found.ranges, found.constants, found.formats, found.remarks) == ({}, {}, {"x": "int32"}, {})
