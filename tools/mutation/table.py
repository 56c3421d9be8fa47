"""What a run found, for people and for programs."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tools.mutation.equivalent import Equivalent
from tools.mutation.mutants import Mutant
from tools.mutation.results import Result
from tools.mutation.trials import NO_PYTHON

COUNTED = ("killed", "alive", "equivalent", "untried")


@dataclass(frozen=True, slots=True)
class Judged:
    """A mutant and what came of it.

    Attributes:
        module: Its module, from the project's folder.
        line: Number of the first changed line.
        before: The changed lines without the fault, joined; empty for one that was killed.
        after: The same with the fault.
        state: ``killed``, ``alive``, ``equivalent``, ``untried``, or ``invalid`` for what is no Python.
        result: The tests that were asked.
        reason: Why it is equivalent.
    """

    module: str
    line: int
    before: str
    after: str
    state: str
    result: Result
    reason: str = ""

    @classmethod
    def of(cls, mutant: Mutant, result: Result | None, source: str, entries: Sequence[Equivalent]) -> "Judged":
        """The mutant with its state; only of one that is alive the change is looked at, which takes time."""
        if result is None:
            return cls(mutant.path, mutant.lines[0], "", "", "untried", Result(None, 0, 0, {}))
        if result.killer is not None:
            state = "invalid" if result.killer == NO_PYTHON else "killed"
            return cls(mutant.path, mutant.lines[0], "", "", state, result)
        before, after = mutant.change(source)
        for entry in entries:
            if entry.is_about(mutant.path, before, after):
                return cls(mutant.path, mutant.lines[0], before, after, "equivalent", result, entry.reason)
        return cls(mutant.path, mutant.lines[0], before, after, "alive", result)


def printed(judged: Sequence[Judged], area_of: Callable[[str], str]) -> str:
    """Those that are alive, line by line, then the table of areas."""
    lines = [
        f"{each.module}:{each.line}: {each.before}\n{'':8}-> {each.after}  [{each.result.asked} of "
        f"{each.result.reaching} tests]"
        for each in judged
        if each.state == "alive"
    ]
    if lines:
        lines.append("")
    lines.append(f"{'area':<18}{'mutants':>8}{'killed':>8}{'alive':>8}{'equivalent':>12}{'untried':>9}{'score':>8}")
    for area, counts in _counts(judged, area_of).items():
        total = sum(counts[state] for state in COUNTED)
        figures = "".join(f"{counts[state]:>{width}}" for state, width in zip(COUNTED, (8, 8, 12, 9), strict=True))
        lines.append(f"{area:<18}{total:>8}{figures}{_score(counts):>8}")
    return "\n".join(lines)


def as_json(judged: Sequence[Judged], area_of: Callable[[str], str]) -> Mapping[str, Any]:
    """Everything: areas, mutants, and how many each test was the first to kill."""
    killers = Counter(each.result.killer for each in judged if each.state == "killed")
    return {
        "schema_version": 1,
        "areas": {
            area: {**{state: counts[state] for state in COUNTED}, "score": _score(counts)}
            for area, counts in _counts(judged, area_of).items()
        },
        "mutants": [asdict(each) for each in judged],
        "killers": dict(killers.most_common()),
    }


def _counts(judged: Iterable[Judged], area_of: Callable[[str], str]) -> Mapping[str, Counter[str]]:
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for each in judged:
        counts[area_of(each.module)][each.state] += 1
    return counts


def _score(counts: Counter[str]) -> str:
    judged = counts["killed"] + counts["alive"]
    return f"{100 * counts['killed'] / judged:.1f} %" if judged else "-"
