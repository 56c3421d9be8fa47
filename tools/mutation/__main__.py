"""``python -m tools.mutation``: which faults in the package do its tests notice?

Run in the folder of the project with ``tests`` on the path; ``make mutants`` does that.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

import click

from tools.mutation import reach
from tools.mutation.children import Limits
from tools.mutation.equivalent import listed
from tools.mutation.mutants import NO_FAULT, Mutant, mutants_of
from tools.mutation.results import Result, Results
from tools.mutation.table import Judged, as_json, printed
from tools.mutation.trials import Trial, Verdict, in_session, loaded_anew

AREAS: Mapping[str, Sequence[str]] = {
    "numerics": ["qdqtool/numerics"],
    "ranges": ["qdqtool/quantization/ranges"],
    "planning": ["qdqtool/quantization/planning"],
    "insertion": ["qdqtool/quantization/insertion"],
    "sensitivity": ["qdqtool/accuracy/layers"],
    "checking": ["qdqtool/accuracy/checking"],
    "task_metrics": ["qdqtool/accuracy/task_metrics"],
    "repair": ["qdqtool/linting/repair"],
    "diff": ["qdqtool/models/diff"],
    "engine-precision": [
        "qdqtool/engines/build/precision_gate.py",
        *(f"qdqtool/engines/tensorrt/{name}.py" for name in ("precision", "planned_types", "inspector")),
    ],
    "graph-index": ["qdqtool/models/graph/index"],
    "transforms": ["qdqtool/models/transforms"],
    "rules": ["qdqtool/linting/rules"],
}
"""The areas that decide what is correct."""

COMPILED = "qdqtool/numerics/compiled/"
"""Modules that numba compiles: their tests run without compiling, so that a fault is in what runs."""


@dataclass(frozen=True, slots=True)
class Run:
    """How mutants are tried.

    Attributes:
        root: The folder of the project.
        folder: Where measurements and results are kept.
        jobs: Processes side by side.
        budget: Seconds of tests for a mutant, beside those of its module's own file.
        again: Whether mutants that were alive are tried again.
    """

    root: Path
    folder: Path
    jobs: int
    budget: float
    again: bool


@click.command()
@click.argument("where", nargs=-1)
@click.option("--changed", metavar="REV", help="Only mutants of lines that differ from this revision.")
@click.option("--jobs", type=click.IntRange(1), default=os.cpu_count() or 1, show_default=True)
@click.option("--budget", type=float, default=5.0, show_default=True, help="Seconds of tests for each mutant.")
@click.option("--again", is_flag=True, help="Try mutants again that were alive.")
@click.option("--stored", is_flag=True, help="Show what is known, and try nothing.")
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Write all results to this file.")
@click.option("--idle", type=click.IntRange(0), default=0, help="Show the slowest tests that noticed nothing first.")
@click.option("--folder", type=click.Path(path_type=Path), default=Path(".mutants"), show_default=True)
def main(  # noqa: PLR0917  one for each option
    where: Sequence[str],
    changed: str | None,
    jobs: int,
    budget: float,
    again: bool,
    stored: bool,
    json_file: Path | None,
    idle: int,
    folder: Path,
) -> None:
    """Put small faults into modules, and see whether their tests fail.

    WHERE: areas such as `rules`, modules and folders; default all areas that decide what is correct.
    """
    # A shell starts what runs in the background with Ctrl-C ignored, which some tests are about.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    run = Run(Path.cwd(), folder.absolute(), jobs, budget, again)
    modules = list(_modules(run.root, where or ([] if changed else list(AREAS)), changed))
    lines = _changed_lines(run.root, changed) if changed else None
    wanted = {module: _mutants(run.root, module, lines) for module in modules}
    if not stored:
        plain = {module: mutants for module, mutants in wanted.items() if not module.startswith(COMPILED)}
        if plain and (os.environ.get("NUMBA_DISABLE_JIT") != "1"):
            _try_all(run, plain, "tests")
        if compiled := {module: mutants for module, mutants in wanted.items() if module.startswith(COMPILED)}:
            _try_uncompiled(run, compiled)
    judged = list(_judge(run, wanted))
    click.echo(printed(judged, _room_of))
    for test, seconds in _idle(run, judged)[:idle]:
        click.echo(f"{seconds:7.2f} s  {test}")
    if json_file:
        json_file.write_text(json.dumps(as_json(judged, _room_of), indent=1) + "\n")


def _modules(root: Path, where: Iterable[str], changed: str | None) -> Iterator[str]:
    places = [place for each in where for place in AREAS.get(each, [each])]
    if changed and not places:
        places = sorted(_changed_lines(root, changed))
    for place in places:
        path = root / place
        if not path.exists():
            raise click.BadParameter(f"no area, folder or module {place!r}; areas: {', '.join(AREAS)}")
        if path.is_file() and path.suffix != ".py":
            raise click.BadParameter(f"{place!r} is no module of Python")
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            yield str(file.relative_to(root))


def _changed_lines(root: Path, revision: str) -> Mapping[str, set[int]]:
    """Numbers of the lines of each module that a revision has not, or has otherwise."""
    words = ["git", "diff", "--unified=0", "--no-color", revision, "--", "qdqtool"]
    told = subprocess.run(words, cwd=root, capture_output=True, text=True, check=False)
    if told.returncode:
        raise click.BadParameter(told.stderr.strip().splitlines()[0], param_hint="'--changed'")
    found: dict[str, set[int]] = {}
    path = ""
    for line in told.stdout.splitlines():
        if line.startswith("+++ "):
            path = line.removeprefix("+++ ").removeprefix("b/")
        elif line.startswith("@@"):
            start, _, count = line.split()[2].removeprefix("+").partition(",")
            found.setdefault(path, set()).update(range(int(start), int(start) + int(count or 1)))
    return {path: lines for path, lines in found.items() if path.endswith(".py") and (root / path).exists()}


def _mutants(root: Path, module: str, lines: Mapping[str, set[int]] | None) -> Sequence[Mutant]:
    return [
        mutant
        for mutant in mutants_of(root / module, root)
        if lines is None or lines.get(module, set()).intersection(range(mutant.lines[0], mutant.lines[1] + 1))
    ]


def _try_uncompiled(run: Run, wanted: Mapping[str, Sequence[Mutant]]) -> None:
    """Try mutants of compiled modules, in a process where numba compiles nothing."""
    if os.environ.get("NUMBA_DISABLE_JIT") == "1":
        _try_all(run, wanted, "tests/numerics")
        return
    words = [f"--jobs={run.jobs}", f"--budget={run.budget}", f"--folder={run.folder}", *["--again"] * run.again]
    environment = os.environ | {"NUMBA_DISABLE_JIT": "1"}
    subprocess.run([sys.executable, "-m", "tools.mutation", *words, *wanted], env=environment, check=True, stdout=2)


def _try_all(run: Run, wanted: Mapping[str, Sequence[Mutant]], tests: str) -> None:
    """Try what is not known, and try again where the test that failed also fails without a fault."""
    measured = run.folder / ("reach-uncompiled" if tests != "tests" else "reach")
    reach.refresh(measured, run.root, tests, _rooms(wanted), run.jobs)
    known = reach.Reach(measured, run.root)
    trials = [trial for module, mutants in wanted.items() for trial in _pending(run, known, module, mutants)]
    untrusted: set[str] = set()
    while trials:
        killers: dict[str, list[Trial]] = {}
        for trial, verdict in _verdicts(run, trials):
            _keep(run, known, trial, verdict)
            if verdict.killer and "::" in verdict.killer:
                killers.setdefault(verdict.killer, []).append(trial)
        found = {test for test in _controls(run, known, killers) if test not in untrusted}
        untrusted |= found
        for test in sorted(found):
            click.echo(f"not asked any more, since it fails without a fault: {test}", err=True)
        trials = [
            replace(trial, tests=[test for test in trial.tests if test not in untrusted])
            for test in found
            for trial in killers[test]
        ]


def _rooms(modules: Iterable[str]) -> set[str]:
    """How the paths of tests begin that are measured again where they have changed: those of the same areas."""
    places = [Path(module).parts[1] for module in modules]
    return {f"tests/test_{place}" if place.endswith(".py") else f"tests/{place}/" for place in places}


def _controls(run: Run, known: reach.Reach, killers: Iterable[str]) -> Iterator[str]:
    """Those of the tests that fail without a fault, when they run as they do on a mutant."""
    trials = [
        Trial(Mutant("", NO_FAULT, number, (0, 0), f"control-{number}"), [test], known.seconds[test])
        for number, test in enumerate(sorted(killers))
    ]
    if trials:
        for trial, verdict in in_session(trials, run.root, Limits(run.jobs)):
            if verdict is not None and verdict.killer is not None:
                yield trial.tests[0]


def _verdicts(run: Run, trials: Sequence[Trial]) -> Iterator[tuple[Trial, Verdict]]:
    limits = Limits(run.jobs)
    with click.progressbar(length=len(trials), label=f"{len(trials)} mutants", file=sys.stderr) as bar:
        for trial, verdict in _tried(run, trials, limits):
            yield trial, verdict
            bar.update(1)


def _tried(run: Run, trials: Sequence[Trial], limits: Limits) -> Iterator[tuple[Trial, Verdict]]:
    reached = [trial for trial in trials if trial.tests]
    anew = []
    yield from ((trial, Verdict(None)) for trial in trials if not trial.tests)
    if reached:
        for trial, verdict in in_session(reached, run.root, limits):
            if verdict is None:
                anew.append(trial)
            else:
                yield trial, verdict
    yield from loaded_anew(anew, run.root, limits)


def _pending(run: Run, known: reach.Reach, module: str, mutants: Sequence[Mutant]) -> Iterator[Trial]:
    """Trials for the mutants of a module that nothing is known of, or not any more."""
    results = Results(run.folder / "results", module)
    results.begin(list(mutants_of(run.root / module, run.root)))
    stored = results.known()
    results.close()
    for _, group in groupby(mutants, key=lambda mutant: mutant.lines):
        same = list(group)
        reached = known.of(module, range(same[0].lines[0], same[0].lines[1] + 1))
        tests = list(_affordable(known, module, reached, run.budget))
        seconds = sum(known.seconds[test] for test in tests)
        for mutant in same:
            if not _holds(run, stored.get(mutant.identity), tests):
                yield Trial(mutant, tests, seconds)


def _affordable(known: reach.Reach, module: str, tests: Sequence[str], budget: float) -> Iterator[str]:
    spent = 0.0
    for test in tests:
        spent += known.seconds[test]
        if spent > budget and reach.distance(module, test):
            return
        yield test


def _holds(run: Run, result: Result | None, tests: Sequence[str]) -> bool:
    if result is None or (run.again and result.killer is None):
        return False
    if result.killer is None and set(_hashes(run, tests)) - set(result.files):
        return False
    return all(
        (run.root / file).exists() and reach.digest(run.root / file) == was for file, was in result.files.items()
    )


def _hashes(run: Run, tests: Iterable[str]) -> Mapping[str, str]:
    files = sorted({test.partition("::")[0] for test in tests if "::" in test})
    return {file: reach.digest(run.root / file) for file in files}


def _keep(run: Run, known: reach.Reach, trial: Trial, verdict: Verdict) -> None:
    first, last = trial.mutant.lines
    reaching = len(known.of(trial.mutant.path, range(first, last + 1)))
    files = _hashes(run, trial.tests if verdict.killer is None else [verdict.killer])
    results = Results(run.folder / "results", trial.mutant.path)
    results.keep(trial.mutant.identity, Result(verdict.killer, len(trial.tests), reaching, files))
    results.close()


def _judge(run: Run, wanted: Mapping[str, Sequence[Mutant]]) -> Iterator[Judged]:
    entries = listed()
    for module, mutants in wanted.items():
        results = Results(run.folder / "results", module)
        known = results.known()
        results.close()
        source = (run.root / module).read_text()
        for mutant in mutants:
            yield Judged.of(mutant, known.get(mutant.identity), source, entries)


def _idle(run: Run, judged: Iterable[Judged]) -> Sequence[tuple[str, float]]:
    """Tests that were the first to fail on no mutant, the slowest first. Another test may have been asked before."""
    folders = [run.folder / "reach", run.folder / "reach-uncompiled"]
    seconds = {test: took for folder in folders for test, took in reach.Reach(folder, run.root).seconds.items()}
    busy = {each.result.killer for each in judged}
    return sorted(((test, took) for test, took in seconds.items() if test not in busy), key=lambda each: -each[1])


def _room_of(module: str) -> str:
    for area, places in AREAS.items():
        if any(module == place or module.startswith(f"{place}/") for place in places):
            return area
    return module.split("/")[1]


if __name__ == "__main__":
    main(prog_name="python -m mutation")
