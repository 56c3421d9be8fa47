"""What was measured of layers, kept in a file."""

from pathlib import Path

import msgspec
import numpy as np
import pytest

from qdqtool.accuracy.layers.noise_file import NoiseCache, alone_key, float_key, read_noise, write_noise
from qdqtool.errors import UsageError
from qdqtool.numerics.noise import Noise


def _cache() -> NoiseCache:
    random = np.random.default_rng(3)
    noise = random.random((4, 2))
    noise[1, 0] = np.inf
    return {
        alone_key(1): Noise(random.random((4, 2)), noise),
        float_key([2, 0]): Noise(random.random((3, 2)), random.random((3, 2))),
        float_key([]): Noise(np.zeros((0, 2)), np.zeros((0, 2))),
    }


def test_reading_gives_the_same_bits(tmp_path: Path) -> None:
    path, cache = tmp_path / "s.json", _cache()
    write_noise(path, "abc", ["a", "b", "c"], ["x", "y"], cache)
    found = read_noise(path, "abc")
    assert list(found) == ["alone 1", "float 0 2", "float"]
    for key, noise in cache.items():
        np.testing.assert_array_equal(found[key].signal, noise.signal)
        np.testing.assert_array_equal(found[key].noise, noise.noise)
        assert found[key].signal.shape == noise.signal.shape


def test_keys_tell_every_state_of_every_format_apart() -> None:
    assert alone_key(3, "int8-0c") == "alone 3 int8-0c"
    assert float_key([3, 1], "int8-0c", [4, 2]) == "float 1 3 int8-0c 2 4"
    assert float_key([1], "int8-0c") == float_key([1]) == "float 1"
    states = [([1, 2], []), ([1], [2]), ([], [1, 2]), ([2], [1]), ([], [])]
    assert len({float_key(left, "fp8-0c", finer) for left, finer in states}) == len(states)


def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    write_noise(path, "abc", ["a"], ["x", "y"], _cache())
    with pytest.raises(UsageError, match="another model, plan or data"):
        read_noise(path, "abd")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"schema_version": 9}, "schema version 9"),
        ({"outputs": ["x"]}, "contradicts itself"),
        ({"more": 1}, "no sensitivity file"),
        ({"entries": {"float": {"signal": [[1.0, 2.0]], "noise": []}}}, "contradicts itself"),
        ({"entries": {"float": {"signal": [["a", 2.0]], "noise": []}}}, "no sensitivity file"),
    ],
)
def test_a_malformed_file_is_refused(change: dict[str, object], told: str, tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    write_noise(path, "abc", ["a"], ["x", "y"], _cache())
    document = msgspec.json.decode(path.read_bytes())
    path.write_bytes(msgspec.json.encode({**document, **change}))
    with pytest.raises(UsageError, match=told):
        read_noise(path, "abc")


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b"\xff\xfe", b"[" * 5000])
def test_other_files_are_no_sensitivity_files(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    path.write_bytes(content)
    with pytest.raises(UsageError, match="no sensitivity file"):
        read_noise(path, "abc")
    with pytest.raises(UsageError, match="cannot be read"):
        read_noise(tmp_path / "absent.json", "abc")
