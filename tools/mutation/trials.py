"""Run the tests on mutants: most in children of one pytest session that has imported and collected everything.

A child puts the mutant's code into place (:mod:`tools.mutation.swap`) and runs its tests until one fails. What is
decided while modules are imported needs a child that has imported nothing of the package yet, which takes about a
second more.
"""

import importlib
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tools.mutation.children import Limits, Result, in_children
from tools.mutation.mutants import Mutant
from tools.mutation.reach import wrapping
from tools.mutation.swap import StandIn, live_functions, swap

HEAVY = ("onnx.reference", "onnx_graphsurgeon", "onnxruntime", "numba", "msgspec", "rich.table", "ml_dtypes")
"""What most tests import, and what takes long; imported once, before children begin. Not pytest's plugins, which it
wants to import itself."""

WORDS = ("-q", "-s", "-p", "no:cacheprovider", "-p", "no:xdist")


@dataclass(frozen=True, slots=True)
class Trial:
    """A mutant and the tests that are asked about it.

    Attributes:
        mutant: The mutant.
        tests: Names of tests, in their order.
        seconds: How long they take without a fault.
    """

    mutant: Mutant
    tests: Sequence[str]
    seconds: float


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of a trial.

    Attributes:
        killer: The test that failed, or :data:`NO_END`, :data:`NO_IMPORT` or :data:`NO_PYTHON`; None if all passed.
    """

    killer: str | None


NO_END = "crash or time"
NO_IMPORT = "import"
NO_PYTHON = "not Python"
"""The fault made what is no Python, so it is no mutant."""


def in_session(trials: Sequence[Trial], root: Path, limits: Limits) -> Iterator[tuple[Trial, Verdict | None]]:
    """Try mutants in children of one pytest session.

    Args:
        trials: The mutants.
        root: The folder of the project, which is the current one.
        limits: For the children.

    Yields:
        Trials with their verdict; those without one need :func:`loaded_anew`.
    """
    files = sorted({test.partition("::")[0] for trial in trials for test in trial.tests})
    reading, writing = os.pipe()
    process = os.fork()
    if not process:
        try:
            os.close(reading)
            os.dup2(os.open(os.devnull, os.O_RDWR), 1)
            with os.fdopen(writing, "w", buffering=1) as told:
                pytest.main([*WORDS, *wrapping(), *files], plugins=[_Session(trials, root, limits, told)])
        finally:
            os._exit(0)
    os.close(writing)
    by_identity = {trial.mutant.identity: trial for trial in trials}
    with os.fdopen(reading) as told:
        for line in told:
            identity, state, killer = line.rstrip("\n").split("\t")
            yield by_identity[identity], {"anew": None, "survived": Verdict(None)}.get(state, Verdict(killer))
    os.waitpid(process, 0)


class _Session:
    """A pytest plugin whose loop tries mutants."""

    def __init__(self, trials: Sequence[Trial], root: Path, limits: Limits, told: Any) -> None:
        self._trials, self._root, self._limits, self._told = trials, root, limits, told
        self._items: dict[str, pytest.Item] = {}
        self._functions: Mapping[str, Any] = {}
        self._failed: str | None = None

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Try all mutants instead of running the tests."""
        self._items = {item.nodeid: item for item in session.items}
        # The package imports much only where it needs it, which each child would do again.
        for name in (*HEAVY, *sorted({_module(trial.mutant.path) for trial in self._trials if trial.mutant.path})):
            importlib.import_module(name)
        for module in {item.getparent(pytest.Module) for item in session.items}:
            # What tests read once and mutants may share.
            getattr(getattr(module, "obj", None), "warm_up", lambda: None)()
        self._functions = live_functions()
        with tempfile.TemporaryDirectory() as folder:
            self._folder = Path(folder)
            for trial, result in in_children(self._trials, self._try, self._limits):
                state, killer = ("killed", NO_END) if result is None else (result["state"], result.get("killer", ""))
                print(trial.mutant.identity, state, killer, sep="\t", file=self._told, flush=True)
                shutil.rmtree(self._folder / trial.mutant.identity, ignore_errors=True)
        return True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a test that fails."""
        if report.failed:
            self._failed = report.nodeid

    def _try(self, trial: Trial) -> Result:
        file = self._root / trial.mutant.path
        source = file.read_text() if trial.mutant.path else ""
        try:
            if not swap(self._functions.get(str(file), ()), source, trial.mutant.text(source)):
                return {"state": "anew"}
        except SyntaxError:
            return {"state": "killed", "killer": NO_PYTHON}
        items = [self._items[name] for name in trial.tests if name in self._items]
        if items:
            _use_folder(items[0].config, self._folder / trial.mutant.identity)
        for item, following in zip(items, [*items[1:], None], strict=True):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if self._failed is not None:
                return {"state": "killed", "killer": self._failed}
        return {"state": "survived"}


def _module(path: str) -> str:
    """The name of a module in a file, without ``__init__``, which only packages without code have."""
    return ".".join(Path(path).with_suffix("").parts).removesuffix(".__init__")


def _use_folder(config: pytest.Config, folder: Path) -> None:
    """Let the tests of a child have their temporary folders where the parent removes them."""
    folder.mkdir()
    factory = config._tmp_path_factory
    factory._basetemp = folder


def loaded_anew(trials: Iterable[Trial], root: Path, limits: Limits) -> Iterator[tuple[Trial, Verdict]]:
    """Try mutants in children that import the package with the fault in it.

    Args:
        trials: The mutants.
        root: The folder of the project, which is the current one.
        limits: For the children.

    Yields:
        Each with its verdict.
    """
    for name in HEAVY:
        importlib.import_module(name)
    with tempfile.TemporaryDirectory() as folder:

        def work(trial: Trial) -> Result:
            file = root / trial.mutant.path
            text = trial.mutant.text(file.read_text())
            try:
                compile(text, str(file), "exec")
            except SyntaxError:
                return {"killer": NO_PYTHON}
            StandIn(_module(trial.mutant.path), str(file), text).install()
            watch = _Watch()
            # pytest would load the package by itself, to rewrite assertions as in every plugin.
            words = [
                *WORDS,
                *wrapping(),
                "-x",
                "--assert=plain",
                f"--basetemp={folder}/{trial.mutant.identity}",
                *trial.tests,
            ]
            code = pytest.main(words, plugins=[watch])
            # A module that cannot be imported fails no test, but nothing is collected.
            return {"killer": watch.failed or (None if code == pytest.ExitCode.OK else NO_IMPORT)}

        for trial, result in in_children(trials, work, limits):
            shutil.rmtree(Path(folder) / trial.mutant.identity, ignore_errors=True)
            yield trial, Verdict(NO_END if result is None else result["killer"])


class _Watch:
    """A pytest plugin that notes the test that fails."""

    def __init__(self) -> None:
        self.failed: str | None = None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a test that fails."""
        if report.failed:
            self.failed = report.nodeid
