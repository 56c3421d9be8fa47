"""Range files of other tools: read as those tools mean them, written so that they read them, hostile ones refused."""

import contextlib
import json
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnxruntime.quantization.calibrate import CalibrationMethod, TensorData, TensorsData, load_tensors_data
from onnxruntime.quantization.calibrate import save_tensors_data as ort_save
from onnxruntime.quantization.quant_utils import write_calibration_table

from qdqtool.errors import UsageError
from qdqtool.quantization.ranges import encodings
from qdqtool.quantization.ranges.encodings import encode, read_encodings, recognize
from qdqtool.quantization.ranges.types import TensorRange

RANGES = {
    "input": TensorRange(-2.5, 3.25, 3.25, 1),
    "/model/conv: 1/out": TensorRange(0.0, 6.0, 6.0, 1),
    "zeros": TensorRange(0.0, 0.0, 0.0, 1),
}
FLOAT32 = st.floats(2**-100, 2**100, width=32)


def written(folder: Path, data: bytes | str) -> Path:
    path = folder / "ranges"
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


def amax(path: Path) -> dict[str, float]:
    return {name: found.amax for name, found in read_encodings(path).found.ranges.items()}


@pytest.mark.parametrize("name", encodings.writable())
def test_what_is_written_is_recognized_and_read_again(name, tmp_path):
    path = written(tmp_path, encode(RANGES, name))
    assert recognize(path) == read_encodings(path).format == name
    assert amax(path) == pytest.approx({tensor: found.amax for tensor, found in RANGES.items()}, rel=1e-7)
    assert encode(read_encodings(path).found.ranges, name) == path.read_bytes()


@pytest.mark.parametrize("name", encodings.writable())
def test_a_format_keeps_both_ends_or_the_larger_one_as_it_says(name, tmp_path):
    found = read_encodings(written(tmp_path, encode(RANGES, name))).found.ranges["input"]
    assert found.min == pytest.approx(-2.5 if encodings.keeps_ends(name) else -3.25, rel=1e-7)


def test_an_npz_loses_nothing(tmp_path):
    ranges = {"x": TensorRange(-1 / 3, 0.1, 1 / 3, 1), "y": TensorRange(5e-324, 1.7e308, 1.7e308, 1)}
    assert read_encodings(written(tmp_path, encode(ranges, "npz"))).found.ranges == ranges


@given(scale=FLOAT32)
def test_a_scale_of_a_tensorrt_cache_comes_back_bit_for_bit(scale, tmp_path_factory):
    line = f"x: {struct.pack('>f', scale).hex()}\n"
    path = written(tmp_path_factory.mktemp("cache"), f"TRT-8601-EntropyCalibration2\n{line}")
    found = read_encodings(path).found.ranges
    assert np.float32(found["x"].amax / 127) == np.float32(scale)
    assert encode(found, "tensorrt-cache").decode().splitlines()[1] == line.strip()


def test_onnxruntime_reads_what_is_written_for_it(tmp_path):
    table = load_tensors_data(written(tmp_path, encode(RANGES, "ort-json")))
    assert table.calibration_method is CalibrationMethod.MinMax
    assert {name: tuple(end.item() for end in data.range_value) for name, data in table.items()} == {
        name: (found.min, found.max) for name, found in RANGES.items()
    }


def ort_table(method: CalibrationMethod) -> TensorsData:
    low, high = np.array([-1.5], np.float32), np.array(2.75, np.float32)
    counts, edges = np.histogram(np.arange(10.0), 4)
    data = {"x": TensorData(lowest=low, highest=high)}
    if method is not CalibrationMethod.MinMax:
        data["y"] = TensorData(lowest=low, highest=high, hist=counts, bins=edges)
    return TensorsData(method, data)


@pytest.mark.parametrize("method", [CalibrationMethod.MinMax, CalibrationMethod.Entropy, CalibrationMethod.Percentile])
def test_the_tables_that_onnxruntime_saves_are_read(method, tmp_path):
    ort_save(ort_table(method), tmp_path / "table.json")
    assert recognize(tmp_path / "table.json") == "ort-json"
    found = read_encodings(tmp_path / "table.json").found.ranges
    assert set(found.values()) == {TensorRange(-1.5, 2.75, 2.75, 1)}
    assert set(found) == set(ort_table(method).keys())


def test_the_older_tables_of_onnxruntime_are_read(tmp_path):
    write_calibration_table(ort_table(CalibrationMethod.Entropy).data, str(tmp_path))
    assert recognize(tmp_path / "calibration.json") == "ort-json"
    assert amax(tmp_path / "calibration.json") == {"x": 2.75, "y": 2.75}
    assert amax(written(tmp_path, '{"x": [-1.5, 0.25], "y": [0, 4]}')) == {"x": 1.5, "y": 4.0}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("", "not a known ranges file"),
        ("{}", "not a known ranges file"),
        ("[" * 100_000, "not a known ranges file"),
        ('{"CLS": ' + "[" * 100_000, "is not valid JSON: it is nested too deeply"),
        ("TRT-8601\nx 3f800000\n", "line 2 is not 'name: ' and eight hexadecimal digits: 'x 3f800000'"),
        ("TRT-8601\nx: 7fc00000\n", "scale nan; a scale must be finite"),
        ("TRT-8601\nx: bf800000\n", "scale -1; a scale must be finite and not negative"),
        ("TRT-8601\nx: 3f800000\nx: 3f800000\n", "names tensor 'x' twice"),
        (b"TRT-8601\n\xff\xfe: 3f800000\n", "is not a text file"),
        ('{"CLS": "TensorsData", "data": [1]}', "'data' is not an object"),
        ('{"CLS": "TensorsData", "data": {"x": {"lowest": 0}}}', "tensor 'x': None is no number"),
        ('{"x": [2, 1]}', "range 2 to 1; both ends must be finite and in order"),
        ('{"x": {"lowest": 0, "highest": 1e999}}', "both ends must be finite"),
        ('{"x": {"lowest": [0, 1], "highest": 2}}', "is no number"),
        ('{"x": [0, 1], "x": [0, 2]}', "has the name 'x' twice in one object"),
        ('{"x": [-1, 1], "y": [-1' + "0" * 5000 + ", 1]}", "is not valid JSON: Exceeds the limit"),
        ('{"CLS": "TensorsData", "data": {"x": {"lowest": NaN}}}', "holds NaN, which is not a JSON number"),
        ('{"x": {"lowest": 0, "highest": 1', "is not valid JSON: Expecting"),
        (b"PK\x03\x04 and then nothing", "is damaged"),
    ],
)
def test_malformed_files_are_refused_in_one_line(data, message, tmp_path):
    with pytest.raises(UsageError, match=message) as caught:
        read_encodings(written(tmp_path, data))
    assert "\n" not in caught.value.message
    assert len(caught.value.message) < 500


def test_an_array_that_is_in_an_npz_twice_is_refused(tmp_path):
    np.save(tmp_path / "x.npy", np.float32(1))
    with zipfile.ZipFile(tmp_path / "r.npz", "w") as archive:
        archive.write(tmp_path / "x.npy", "x.npy")
        archive.write(tmp_path / "x.npy", "x")
    with pytest.raises(UsageError, match="holds array 'x' twice"):
        read_encodings(tmp_path / "r.npz")


def test_an_npz_that_swells_up_is_not_unpacked(tmp_path):
    with zipfile.ZipFile(tmp_path / "r.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", bytes(1 << 26))
    with pytest.raises(UsageError, match="array 'x' is larger than one or two numbers"):
        read_encodings(tmp_path / "r.npz")


def test_a_missing_file_is_said(tmp_path):
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        recognize(tmp_path / "absent")


@given(
    data=st.binary(max_size=200), head=st.sampled_from([b"", b"TRT-", b"PK\x03\x04", b'{"CLS":', b'{"activation_enc'])
)
def test_any_bytes_are_read_or_refused(data, head, tmp_path_factory):
    path = written(tmp_path_factory.mktemp("bytes"), head + data)
    with contextlib.suppress(UsageError):
        assert read_encodings(path).format in encodings.names()


@pytest.mark.parametrize("name", encodings.writable())
def test_any_damage_to_a_file_is_read_or_refused(name, tmp_path):
    """One byte after the other is changed; where no range is hit, and in a digit of one, the file is read."""
    whole, refused = encode(RANGES, name), 0
    for position in range(len(whole)):
        path = written(tmp_path, whole[:position] + bytes([whole[position] ^ 1]) + whole[position + 1 :])
        try:
            assert read_encodings(path).format in encodings.names()
        except UsageError:
            refused += 1
    assert 0 < refused < len(whole)


def test_a_mark_in_front_of_a_text_is_no_obstacle(tmp_path):
    assert amax(written(tmp_path, b"\xef\xbb\xbfTRT-8601-MinMaxCalibrator\nx: 3f800000\n")) == {"x": 127.0}
    assert amax(written(tmp_path, b'\xef\xbb\xbf{"x": [-2, 1]}')) == {"x": 2.0}


@pytest.mark.parametrize("header", ["TRT-7103-LegacyCalibrator", "TRT-8601-MinMaxCalibrator", "TRT-101300-Entropy"])
def test_any_release_and_calibrator_of_tensorrt_will_do(header, tmp_path):
    assert amax(written(tmp_path, f"{header}\na: b: 3f800000\n")) == {"a: b": 127.0}


def test_names_and_messages_are_bounded(tmp_path):
    with pytest.raises(UsageError, match="names a tensor with 100000 characters"):
        read_encodings(written(tmp_path, json.dumps({"a" * 100_000: [0, 1]})))
    with pytest.raises(UsageError) as caught:
        read_encodings(written(tmp_path, json.dumps({"a" * 100_000: [1, 0]})))
    assert len(caught.value.message) < 1000


def test_ranges_of_ours_are_not_another_tool_s_and_the_hint_says_where_they_go(tmp_path):
    with pytest.raises(UsageError, match="was written by `qdqtool calibrate`") as caught:
        read_encodings(written(tmp_path, '{"schema_version": 2, "tensors": []}'))
    assert "--calibration-cache" in caught.value.hint


def test_ids_are_sorted_and_aimet_is_only_read():
    assert encodings.names() == ("aimet", "npz", "ort-json", "tensorrt-cache")
    assert encodings.writable() == ("npz", "ort-json", "tensorrt-cache")
    assert [encodings.keeps_ends(name) for name in encodings.names()] == [True, True, True, False]


@pytest.mark.parametrize(("length", "is_read"), [(4_096, True), (4_097, False)])
def test_a_name_has_4096_characters_at_most(length, is_read, tmp_path):
    path = written(tmp_path, json.dumps({"b": [0, 1], "a" * length: [0, 1]}))
    if is_read:
        assert set(amax(path)) == {"b", "a" * length}
        return
    with pytest.raises(UsageError) as caught:
        read_encodings(path)
    assert caught.value.message == (
        f"ONNX Runtime calibration table {path}: names a tensor with 4097 characters, which no model has"
    )


def test_a_long_message_ends_after_400_characters(tmp_path):
    whole = "tensor '' has the range 1 to 0; both ends must be finite and in order"
    for extra in (0, 1):
        name = "a" * (400 - len(whole) + extra)
        path = written(tmp_path, json.dumps({name: [1, 0]}))
        with pytest.raises(UsageError) as caught:
            read_encodings(path)
        message = caught.value.message.removeprefix(f"ONNX Runtime calibration table {path}: ")
        text = whole.replace("''", f"'{name}'")
        assert message == (text if not extra else f"{text[:400]}…")


def test_a_table_without_tensors_is_read(tmp_path):
    assert amax(written(tmp_path, '{"CLS": "TensorsData", "data": {}}')) == {}


@pytest.mark.parametrize(("spare", "is_read"), [(0, True), (-1, False)])
def test_a_file_that_is_too_large_is_not_read(tmp_path, monkeypatch, spare, is_read):
    path = written(tmp_path, "TRT-8601\nx: 3f800000\n")
    monkeypatch.setattr(encodings, "MAX_RANGES_BYTES", path.stat().st_size + spare)
    if is_read:
        assert recognize(path) == "tensorrt-cache"
        return
    with pytest.raises(UsageError) as caught:
        recognize(path)
    assert caught.value.message == f"{path} is larger than 0 MiB"


def test_what_is_unknown_is_told_what_is_known(tmp_path):
    known = "AIMET encodings, npz of ranges, ONNX Runtime calibration table, TensorRT calibration cache"
    for text in ("plain", '{"tensors": []}', '{"schema_version": 2}', "[]"):
        path = written(tmp_path, text)
        with pytest.raises(UsageError) as caught:
            read_encodings(path)
        assert caught.value.message == f"{path} is not a known ranges file; known are: {known}"
    path = written(tmp_path, ' \n{"a": 1,}')
    with pytest.raises(UsageError) as caught:
        read_encodings(path)
    assert caught.value.message.startswith(f"{path} is not valid JSON: ")


def test_the_hint_for_ranges_of_ours_quotes_the_path(tmp_path):
    folder = tmp_path / "a b"
    folder.mkdir()
    path = written(folder, '{"schema_version": 2, "tensors": [], "more": 0}')
    with pytest.raises(UsageError) as caught:
        read_encodings(path)
    assert (
        caught.value.message
        == f"{path} was written by `qdqtool calibrate`, and its ranges fit only the model that qdqtool prepared"
    )
    assert caught.value.hint == f"quantize with it: `qdqtool quantize MODEL --calibration-cache '{path}' -o OUT.onnx`"
