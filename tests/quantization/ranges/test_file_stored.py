"""Ranges from a file: which methods may use them, and which parts of the samples they may cover."""

from pathlib import Path

import numpy as np
import pytest
from support.magnitudes import seen
from support.refusals import refused

from qdqtool.errors import UsageError
from qdqtool.quantization.ranges.file import encode_ranges, read_stored
from qdqtool.quantization.ranges.types import UNSEEN, CalibrationRecord, Ranges, RangesPart, TensorRange

PLAIN = TensorRange(-1.0, 2.0, 2.0, 4)
TAKEN = "quantizing with `--force` uses them anyway"
COUNTED = seen(np.float32([-1, 2, 0.5]))


def stored(
    folder: Path, *found: TensorRange, method: str = "max", part: RangesPart | None = None
) -> tuple[Path, Ranges]:
    record = CalibrationRecord(method=method, samples=40, random=False, seed=None, data_sha256="d", model_sha256="m")
    ranges = Ranges(record, {((), f"t{number}"): each for number, each in enumerate(found)}, {}, part)
    path = folder / "r.json"
    path.write_bytes(encode_ranges(ranges))
    return path, ranges


ANY = (None, "entropy", "mse", "auto", "percentile", "max")


@pytest.mark.parametrize(("found", "recorded", "methods"), [(PLAIN, "max", (None, "max")), (COUNTED, "entropy", ANY)])
def test_ranges_are_those_of_any_method_with_histograms_and_of_max_without(tmp_path, found, recorded, methods):
    path, ranges = stored(tmp_path, found, UNSEEN, method=recorded)
    for method in methods:
        assert read_stored(path, method) == ranges


@pytest.mark.parametrize("method", ["entropy", "mse", "auto", "percentile"])
@pytest.mark.parametrize("found", [(PLAIN,), (COUNTED, PLAIN)])
def test_one_tensor_without_a_histogram_is_enough_to_refuse(tmp_path, method, found):
    path, _ = stored(tmp_path, *found)
    with refused(
        UsageError,
        f"ranges {path} have no histograms, which method '{method}' needs; they were found for 'max'",
        hint=f"quantize with `--calibration-method max`, or calibrate again with `--calibration-method {method}`",
    ):
        read_stored(path, method)


def test_the_method_of_the_file_decides_where_none_is_named(tmp_path):
    path, _ = stored(tmp_path, PLAIN, method="mse")
    with pytest.raises(UsageError, match="which method 'mse' needs; they were found for 'mse'"):
        read_stored(path)


@pytest.mark.parametrize(
    ("part", "held", "hint"),
    [
        (
            RangesPart(0, 40, 16),
            "come from an interrupted calibration, with 16 of 40 samples",
            "run the same calibration again: it continues where it stopped; " + TAKEN,
        ),
        (
            RangesPart(16, 40, 40),
            "come from a shard, with 24 of 40 samples",
            "join all shards: `qdqtool merge SHARD... -o RANGES`; " + TAKEN,
        ),
    ],
)
def test_a_part_of_the_samples_is_taken_by_force_only(tmp_path, part, held, hint):
    path, ranges = stored(tmp_path, PLAIN, part=part)
    with refused(UsageError, f"ranges {path} {held}", hint=hint):
        read_stored(path)
    assert read_stored(path, force=True) == ranges
