"""Commands on a model of 6 GB stay within their memory: ``pytest -m large tests/benchmarks/test_large_models.py``."""

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from benchmarks.comparison.decoder import Size
from benchmarks.large_models import STEPS, Step, Taken, run, take, write_files


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    path = tmp_path_factory.mktemp("large")
    assert write_files(path, Size(42)) > 5.8e9
    yield path
    for file in path.iterdir():
        file.unlink()


@pytest.mark.large
@pytest.mark.parametrize("name", STEPS)
def test_memory_stays_within_its_limit(name: str, folder: Path) -> None:
    taken = take(STEPS[name], folder)
    assert STEPS[name].holds(taken), str(taken)


@pytest.mark.parametrize(
    ("taken", "holds"),
    [
        (Taken(wall=1, cpu=1, peak=5, anonymous=3, code=0), True),
        (Taken(wall=1, cpu=1, peak=6, anonymous=3, code=0), False),
        (Taken(wall=1, cpu=1, peak=5, anonymous=4, code=0), False),
        (Taken(wall=1, cpu=1, peak=5, anonymous=3, code=1), False),
        # Nothing was seen of the memory.
        (Taken(wall=1, cpu=1, peak=5, anonymous=0, code=0), False),
    ],
)
def test_a_step_holds_where_it_ends_well_within_both_limits(taken: Taken, holds: bool) -> None:
    assert Step((), most_resident=5, most_anonymous=3).holds(taken) is holds


@pytest.mark.slow(reason="models of hundreds of megabytes")
@pytest.mark.skipif(sys.platform != "linux", reason="Linux tells the memory of a process")
def test_every_step_runs_on_a_small_decoder(tmp_path: Path) -> None:
    size = Size(1, width=64, heads=2, inner=256, vocabulary=96, tokens=8)
    write_files(tmp_path, size)
    for name, step in STEPS.items():
        taken = take(step, tmp_path)
        assert step.holds(taken), f"{name}: {taken}"
        assert taken.anonymous <= taken.peak


@pytest.mark.skipif(sys.platform != "linux", reason="Linux tells the memory of a process")
@pytest.mark.slow(reason="processes with large arrays")
def test_memory_of_the_process_that_measures_is_not_counted(tmp_path: Path) -> None:
    held = np.ones(1 << 29, np.uint8)
    taken = run(["--version"], tmp_path)
    assert not taken.code
    assert 0 < taken.peak < held.nbytes
