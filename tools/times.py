"""Say where processor seconds go, and hold them to ``tools/budget.toml``: CI fails a tenth beyond a limit.

    python tools/times.py demo                runs ``make demo``: its seconds, packages and megabytes
    python tools/times.py tests .junit.xml    a run of the tests: collection, the slowest files and tests

Seconds are those of processors: waiting costs nothing, and two workers count twice. Those of tests are seconds of the
machine on which the limits were set: the run has the time of a fixed piece of work, and where that is longer than
there, the seconds are divided by the quotient. A machine that is shared with others took up to 1.4 times as long for
the same tests.
"""

import argparse
import importlib.metadata
import resource
import statistics
import subprocess
import sys
import tomllib
import xml.etree.ElementTree as ET
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIMITS = "tools/budget.toml"
TOLERANCE = 1.1
"""A busy machine takes a little more."""
SLOWEST = 40
DEMO = ".demo"
PROCESSOR, COLLECTING, ENDING, SLOW, WORK = "processor", "collecting", "ending", "slow", "work"
"""Properties that ``tests/support/processor_time.py`` writes."""
REFERENCE = 0.0134
"""Seconds of the piece of work on the machine of the limits, with two workers: 28 November 2026, when collecting a new
checkout took 25 s and the tests 873 s; both are 1.36 and 1.35 times as much where the piece of work takes 0.0181 s."""


@dataclass(frozen=True, slots=True)
class TestTimes:
    """The processor seconds of a run.

    Attributes:
        tests: Those of each test, by file and name.
        slow: The tests that ``make test`` leaves out.
        collecting: Those until the first test, for each worker.
        ending: Those of processes that served many tests, fast and slow ones.
        slowness: Time of this machine for the same work, as a multiple of that of the machine of the limits.
    """

    tests: Mapping[tuple[str, str], float]
    slow: frozenset[tuple[str, str]]
    collecting: tuple[float, ...]
    ending: float = 0.0
    slowness: float = 1.0

    @property
    def fast(self) -> float:
        """The sum of what ``make test`` runs."""
        return sum(seconds for test, seconds in self.tests.items() if test not in self.slow) + sum(self.collecting)

    @property
    def total(self) -> float:
        """The sum of all."""
        return sum(self.tests.values()) + sum(self.collecting) + self.ending


def read_times(junit: Path) -> TestTimes:
    """Return the processor seconds that a file of ``--junit-xml`` has."""
    tests: dict[tuple[str, str], float] = defaultdict(float)
    collecting, ending, slow, work = [], 0.0, set(), []
    for case in ET.parse(junit).getroot().iter("testcase"):
        test = case.get("classname", ""), case.get("name", "")
        for name, value in ((each.get("name"), each.get("value", "")) for each in case.iter("property")):
            if name == PROCESSOR:
                tests[test] += float(value)
            elif name == COLLECTING:
                collecting.append(float(value))
            elif name == ENDING:
                ending += float(value)
            elif name == SLOW:
                slow.add(test)
            elif name == WORK:
                work.append(float(value))
    # A machine that does the piece of work faster ran the tests no faster than that of the limits: 0.84 and 1.0.
    slowness = max(1.0, statistics.median(work) / REFERENCE) if work else 1.0
    scaled = {test: seconds / slowness for test, seconds in tests.items()}
    begun = tuple(seconds / slowness for seconds in collecting)
    return TestTimes(scaled, frozenset(slow), begun, ending / slowness, slowness)


def lines(times: TestTimes) -> Iterator[str]:
    """Yield a report of a run: sums, the slowest files, the slowest tests."""
    files: Counter[str] = Counter()
    for (file, _), seconds in times.tests.items():
        files[file] += seconds
    collecting = " + ".join(f"{seconds:.0f}" for seconds in times.collecting)
    yield f"{times.total:.0f} processor seconds in {len(times.tests):,} tests, {collecting} of them for collecting"
    yield f"{times.ending:.0f} of them at the end, for processes that served many tests"
    yield f"{times.fast:.0f} without the {len(times.slow)} slow ones"
    yield f"this machine took {times.slowness:.2f} times as long; the seconds here are divided by that"
    yield f"\nslowest {SLOWEST} of {len(files)} files"
    yield from (f"{seconds:8.1f}  {file}" for file, seconds in files.most_common(SLOWEST))
    yield f"\nslowest {SLOWEST} tests"
    slowest = sorted(times.tests.items(), key=lambda each: -each[1])[:SLOWEST]
    for test, seconds in slowest:
        yield f"{seconds:8.1f}  {'::'.join(test)}{' (slow)' if test in times.slow else ''}"


def run_demo() -> dict[str, float]:
    """Run ``make demo`` in its own environment, made anew, and return what it took."""
    subprocess.run(["rm", "-rf", DEMO], cwd=ROOT, check=True)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(["make", "demo"], cwd=ROOT, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    (packages,) = (ROOT / DEMO).glob("lib/python*/site-packages")
    return {
        "demo seconds": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
        "demo packages": len(list(importlib.metadata.distributions(path=[str(packages)]))),
        "demo megabytes": sum(path.lstat().st_size for path in packages.rglob("*") if path.is_file()) / 1e6,
    }


def exceeded(figures: Mapping[str, float], limits: Mapping[str, Mapping[str, float]]) -> list[str]:
    """Return a line for each figure beyond its limit and the tolerance."""
    found = {name: (value, limits[name]["limit"]) for name, value in figures.items() if name in limits}
    return [
        f"{name}: {value:.0f}, limit {limit:.0f}" for name, (value, limit) in found.items() if value > TOLERANCE * limit
    ]


def main() -> None:
    """Print figures; end with 1 where one is beyond its limit."""
    parser = argparse.ArgumentParser(description="Say where processor seconds go, and hold them to their limits.")
    what = parser.add_subparsers(dest="what", required=True)
    what.add_parser("demo", help="run `make demo`")
    tests = what.add_parser("tests", help="read the file that `make test` or `make test-all` wrote")
    tests.add_argument("junit", type=Path)
    asked = parser.parse_args()
    if asked.what == "demo":
        figures = run_demo()
        sys.stdout.writelines(f"{name}: {value:.0f}\n" for name, value in figures.items())
    else:
        times = read_times(asked.junit)
        sys.stdout.writelines(f"{line}\n" for line in lines(times))
        figures = {
            "test seconds": times.fast,
            "test-all seconds": times.total,
            "collection seconds": max(times.collecting, default=0.0),
        }
    faults = exceeded(figures, tomllib.loads((ROOT / LIMITS).read_text("utf-8")))
    if faults:
        sys.exit("\n".join([*faults, f"Make it faster, or raise the limit in {LIMITS} and say why there."]))


if __name__ == "__main__":
    main()
