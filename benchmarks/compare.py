"""What got slower, or takes more memory, between two files that benchmarks wrote, by more than their noise.

    python benchmarks/compare.py OLD.json NEW.json

Files are those of ``peers.py --json`` and ``growth.py --json``. The smallest of the repeated measurements stands for a
row, and the distance from it to the largest is the noise of the row; the noise of both files counts. What was measured
once may be off by a quarter. A difference below 2 % counts for nothing. The exit code is 1 where something got worse.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.comparison import tables

UNREPEATED = 0.25
"""Share by which a figure that was measured once may be off."""
LEAST = 0.02
"""Share that a difference has at least."""
FIGURES = {"wall": "seconds", "cpu": "CPU seconds", "peak": "bytes"}
COLUMNS = ("row", "figure", "old", "new", "change", "noise")

Rows = dict[tuple[str, str], Sequence[float]]
"""All measurements of a figure of a row, by the names of both."""


@dataclass(frozen=True, slots=True)
class Change:
    """A figure of a row in both files.

    Attributes:
        row: Name of the row.
        figure: Of :data:`FIGURES`.
        old: The smallest measurement in the old file.
        new: That in the new file.
        noise: By how much these may differ where nothing changed.
    """

    row: str
    figure: str
    old: float
    new: float
    noise: float

    @property
    def is_worse(self) -> bool:
        """Whether it grew by more than noise."""
        return self.new - self.old > max(self.noise, LEAST * self.old)

    @property
    def is_better(self) -> bool:
        """Whether it fell by more than noise."""
        return self.old - self.new > max(self.noise, LEAST * self.old)

    @property
    def cells(self) -> list[str]:
        """Under :data:`COLUMNS`."""
        percent = 100 / self.old if self.old else 0.0
        figures = (f"{self.old:.4g}", f"{self.new:.4g}", f"{percent * (self.new - self.old):+.0f} %")
        return [self.row, FIGURES[self.figure], *figures, f"{percent * self.noise:.0f} %"]


def main() -> None:
    """Print what changed; end with 1 where something got worse."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    arguments = parser.parse_args()
    older, newer = (json.loads(path.read_text(encoding="utf-8")) for path in (arguments.old, arguments.new))
    changes = compared(rows(older), rows(newer))
    if not changes:
        raise SystemExit("the files have no row in common")
    worse = [change for change in changes if change.is_worse]
    for title, found in (("worse", worse), ("better", [change for change in changes if change.is_better])):
        if found:
            print(f"{title}\n{tables.text(COLUMNS, [change.cells for change in found])}\n")
    print(f"{len(changes)} figures in both files, {len(worse)} worse by more than noise")
    if _machines(older) != _machines(newer):
        print("the files are of other machines or packages: their times do not compare", file=sys.stderr)
    sys.exit(bool(worse))


def compared(older: Rows, newer: Rows) -> list[Change]:
    """The figures that both files have, those that grew most first."""
    changes = [
        Change(*key, min(older[key]), min(newer[key]), _noise(older[key], newer[key]))
        for key in older.keys() & newer.keys()
    ]
    return sorted(changes, key=lambda change: (-change.new / max(change.old, 1e-12), change.row, change.figure))


def rows(document: Mapping[str, Any]) -> Rows:
    """All measurements of a file, of whichever script."""
    found: Rows = {}
    for name, cost in _costs(document):
        for figure in FIGURES:
            repeated = cost.get("repeated") or {}
            found[name, figure] = repeated.get(figure) or [cost[figure]]
    for row in document.get("growth_rows", ()):
        for figure in FIGURES:
            for size, runs in zip(row["sizes"], row[figure], strict=True):
                # Memory that a command takes beyond what it has at the start may be none.
                if min(runs) > 0:
                    found[f"{row['command']}: {row['axis']} {size:,}", figure] = runs
    return found


def _costs(document: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The costs in a file of peers.py, with names that are unique in it."""
    for result in document.get("results", ()):
        words = (result[word] for word in ("model", "tool", "group", "method", "samples"))
        if result["cost"] is not None:
            yield " ".join(str(word) for word in words if word != ""), result["cost"]
    for growth in document.get("growth", ()):
        if not growth["failed"]:
            words = (growth[word] for word in ("model", "tool", "group", "method"))
            name = " ".join(str(word) for word in words if word != "")
            for count, part in zip(growth["samples"], ("few", "many"), strict=True):
                yield f"{name}, growth with {count} samples", growth[part]


def _noise(older: Sequence[float], newer: Sequence[float]) -> float:
    return sum(max(runs) - min(runs) if len(runs) > 1 else UNREPEATED * runs[0] for runs in (older, newer))


def _machines(document: Mapping[str, Any]) -> set[str]:
    """What the rows of a file say of packages and processors, but for the version of qdqtool itself."""
    parts = [document, *document.get("results", ()), *document.get("growth", ())]
    told = {str(part["versions"]) for part in parts if part.get("versions")}
    return {", ".join(word for word in each.split(", ") if not word.startswith("qdqtool ")) for each in told}


if __name__ == "__main__":
    main()
