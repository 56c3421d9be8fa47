"""The reviewed list of mutants that do the same as the package, so that no test can tell them apart."""

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).with_name("equivalents")
"""One file for each area, with a list of entries for each module, and one for what holds in every module."""

EVERYWHERE = "everywhere"


@dataclass(frozen=True, slots=True)
class Equivalent:
    """A mutant, named by what it changes, and the reason why that changes nothing.

    Attributes:
        module: Its module, from the project's folder, or :data:`EVERYWHERE`.
        line: The line without the fault, stripped; everywhere, the part of a line that is changed.
        mutant: The same with it.
        reason: Why nobody can tell.
    """

    module: str
    line: str
    mutant: str
    reason: str

    def is_about(self, module: str, before: str, after: str) -> bool:
        """Whether this is the entry of a mutant.

        Args:
            module: The module, from the project's folder.
            before: The changed lines without the fault, joined.
            after: The same with it.
        """
        if self.module != EVERYWHERE:
            return (self.module, self.line, self.mutant) == (module, before, after)
        parts = before.split(self.line)
        return any(
            self.line.join(parts[:place]) + self.mutant + self.line.join(parts[place:]) == after
            for place in range(1, len(parts))
        )


def listed(folder: Path = FOLDER) -> Sequence[Equivalent]:
    """All entries of the list.

    Args:
        folder: Where its files are.
    """
    return [
        Equivalent(module, entry["line"], entry["mutant"], entry["reason"])
        for file in sorted(folder.glob("*.toml"))
        for module, entries in tomllib.loads(file.read_text()).items()
        for entry in entries
    ]
