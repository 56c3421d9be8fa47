"""The reviewed list of mutants that do the same as the package, so that no test can tell them apart."""

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).with_name("equivalents")
"""One file for each room, with a list of entries for each module."""


@dataclass(frozen=True, slots=True)
class Equivalent:
    """A mutant, named by what it changes, and the reason why that changes nothing.

    Attributes:
        module: Its module, from the project's folder.
        line: The line without the fault, stripped.
        mutant: The line with it.
        reason: Why nobody can tell.
    """

    module: str
    line: str
    mutant: str
    reason: str


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
