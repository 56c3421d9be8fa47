"""Which tests reach a line of the package, and in which order they are asked about a mutant of it.

Measured with coverage.py, a context for each test. Only what runs in the test's own process counts: a test that starts
the command line as another process reaches nothing.
"""

import ast
import difflib
import functools
import hashlib
import itertools
import json
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath

import coverage

MARKED = "not builder and not gpu and not real and not slow and not large"
ELSEWHERE = ("acceptance", "cli", "sample_models", "benchmarks", "integrations", "gpu")
"""Folders whose tests start the command line as another process, or are about something else."""


class Reach:
    """What was measured of the suite so far.

    Args:
        folder: Where it is kept, as :func:`measure` left it.
        root: The folder of the project.

    Attributes:
        seconds: How long each test took; only those that passed.
    """

    def __init__(self, folder: Path, root: Path) -> None:
        self._root = root
        self._parts = [_Part(each, root) for each in _parts(folder)]
        latest = {file: number for number, part in enumerate(self._parts) for file in part.files}
        self.seconds: dict[str, float] = {}
        for number, part in enumerate(self._parts):
            part.seconds = {test: took for test, took in part.seconds.items() if latest[_file(test)] == number}
            self.seconds |= part.seconds

    def of(self, path: str, lines: Iterable[int]) -> Sequence[str]:
        """The tests that reach any of the lines of a file, which may have changed since, the nearest first.

        Args:
            path: The file, from the project's folder.
            lines: Line numbers, from 1.
        """
        text = (self._root / path).read_text()
        tests = self._reaching(path, sorted(lines_of_functions(text).intersection(lines)))
        if not tests:
            # What runs while the module is imported is judged by all that use the module, not by those few that were
            # the first to import it.
            tests = self._reaching(path, range(1, len(text.splitlines()) + 1))
        if not tests:
            # A module of constants only has no line that runs in a test.
            tests = [test for test in self.seconds if distance(path, test) == 0]
        return self._nearest_first(path, tests)

    def _reaching(self, path: str, lines: Sequence[int]) -> Sequence[str]:
        return [name for part in self._parts for name in part.contexts(path, lines) if name in part.seconds]

    def _nearest_first(self, path: str, tests: Sequence[str]) -> Sequence[str]:
        variants: dict[str, list[str]] = defaultdict(list)
        for test in sorted(tests, key=lambda name: self.seconds[name]):
            variants[test.partition("[")[0]].append(test)
        # Parameters of one test often take the same way, so tests share the time: the next one is that whose parameters
        # will have taken least by then.
        spent = {
            test: total
            for names in variants.values()
            for test, total in zip(names, itertools.accumulate(map(self.seconds.__getitem__, names)), strict=True)
        }
        return sorted(tests, key=lambda test: (distance(path, test), spent[test]))


def lines_of_functions(text: str) -> set[int]:
    """Numbers of the lines that run when a function is called, and not while the module is imported.

    Args:
        text: The module.
    """
    functions = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)]
    return {line for each in functions for line in range(each.body[0].lineno, (each.end_lineno or 0) + 1)}


class _Part:
    """One run of tests."""

    def __init__(self, folder: Path, root: Path) -> None:
        self._root = root
        self.seconds: dict[str, float] = json.loads((folder / "seconds.json").read_text())
        self.files: dict[str, str] = json.loads((folder / "files.json").read_text())
        self._sources: dict[str, str] = json.loads((folder / "sources.json").read_text())
        self._data = coverage.CoverageData(str(folder / "lines"))
        self._data.read()

    def contexts(self, path: str, lines: Sequence[int]) -> set[str]:
        """Names of the tests that ran any of the lines; the empty name for what ran outside of tests."""
        then, found = self._then(path), self._by_line(path)
        return {name for line in lines for name in found.get(then.get(line, line), ())}

    @functools.lru_cache(maxsize=4)  # noqa: B019  one object lives as long as the process
    def _by_line(self, path: str) -> Mapping[int, Sequence[str]]:
        return self._data.contexts_by_lineno(path)

    @functools.lru_cache(maxsize=4)  # noqa: B019
    def _then(self, path: str) -> Mapping[int, int]:
        return lines_then(self._sources.get(path, ""), (self._root / path).read_text())


def refresh(folder: Path, root: Path, below: str, areas: Collection[str], jobs: int) -> None:
    """Measure the tests that are new or were changed since they were measured; all, where nothing was yet.

    Args:
        folder: Where measurements are kept.
        root: The folder of the project.
        below: The folder of the tests, from the project's.
        areas: How the paths of tests begin that are measured again.
        jobs: Processes side by side.
    """
    there = {
        name: digest(path)
        for path in (root / below).rglob("test_*.py")
        if not (name := str(path.relative_to(root))).startswith(tuple(f"tests/{each}/" for each in ELSEWHERE))
    }
    known: dict[str, str] = {}
    for part in _parts(folder):
        known |= json.loads((part / "files.json").read_text())
    stale = {name: found for name, found in there.items() if known.get(name) != found}
    if known:
        stale = {name: found for name, found in stale.items() if name.startswith(tuple(areas))}
    if stale:
        part = folder / f"{len(_parts(folder)):04}"
        measure(part, root, [below] if not known else sorted(stale), jobs)
        (part / "files.json").write_text(json.dumps(stale))


def digest(path: Path) -> str:
    """A hash of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def _parts(folder: Path) -> list[Path]:
    return sorted(path.parent for path in folder.glob("*/files.json"))


def _file(test: str) -> str:
    return test.partition("::")[0]


def distance(path: str, test: str) -> int:
    """How far a test stands from a module: 0 in its own file, then the areas that they do not share.

    Args:
        path: Such as ``qdqtool/linting/rules/rank.py``.
        test: Such as ``tests/linting/rules/test_rank.py::test_…``.
    """
    module = PurePosixPath(path).with_suffix("").parts[1:]
    *areas, file = PurePosixPath(test.partition("::")[0]).with_suffix("").parts[1:]
    # The law of the layout: the tests of ``_module`` stand in ``test_module``.
    if (*areas, file.removeprefix("test_")) == (*module[:-1], module[-1].lstrip("_")):
        return 0
    shared = next(
        (n for n, (a, b) in enumerate(zip(areas, module, strict=False)) if a != b), min(len(areas), len(module))
    )
    return 1 + len(module) - shared


def selection() -> Sequence[str]:
    """Words for pytest: the tests that run in their own process, and need neither a builder nor large models."""
    return "-m", MARKED, *(f"--ignore=tests/{folder}" for folder in ELSEWHERE), *wrapping()


def wrapping() -> Sequence[str]:
    """Words for pytest: without compiling, NumPy warns where integers wrap, which compiled code does in silence."""
    return ("-W", "ignore::RuntimeWarning") if os.environ.get("NUMBA_DISABLE_JIT") == "1" else ()


def measure(folder: Path, root: Path, tests: Sequence[str], jobs: int) -> None:
    """Run the tests once, and keep what they reach; those that fail are left out.

    Args:
        folder: Where the measurement goes.
        root: The folder of the project.
        tests: Files and folders of tests.
        jobs: Processes side by side.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    here = [str(root), str(root / "tests"), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {
        "QDQTOOL_REACH": str(folder),
        "QDQTOOL_REACH_SOURCE": str(root / "qdqtool"),
        "PYTHONPATH": os.pathsep.join(here),
    }
    words = ["-q", "-p", "no:cacheprovider", "-p", "tools.mutation.reach_plugin", *selection()]
    words += ["-n", str(jobs), "--dist", "worksteal"] if jobs > 1 else []
    # Standard output is for the table.
    pytest = [sys.executable, "-m", "pytest", *words, *tests]
    subprocess.run(pytest, cwd=root, env=environment, check=False, stdout=2)
    _merge(folder, root)
    sources = {str(path.relative_to(root)): path.read_text() for path in (root / "qdqtool").rglob("*.py")}
    (folder / "sources.json").write_text(json.dumps(sources))


def _merge(folder: Path, root: Path) -> None:
    merged = coverage.CoverageData(str(folder / "lines"))
    for part in folder.glob("lines.*"):
        read = coverage.CoverageData(str(part))
        read.read()
        merged.update(read, map_path=lambda path: os.path.relpath(path, root))
        part.unlink()
    merged.write()
    seconds: dict[str, float] = {}
    for part in folder.glob("seconds.*.json"):
        seconds |= json.loads(part.read_text())
        part.unlink()
    (folder / "seconds.json").write_text(json.dumps(seconds))


def lines_then(before: str, now: str) -> Mapping[int, int]:
    """For each line of a text the line of an earlier one; for a new line the last one above it that was there."""
    if before == now:
        return {}
    old, new = before.splitlines(), now.splitlines()
    then: dict[int, int] = {}
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    for _, i1, i2, j1, j2 in matcher.get_opcodes():
        for number in range(j1, j2):
            then[number + 1] = min(i1 + number - j1, max(i2 - 1, i1 - 1)) + 1
    return then
