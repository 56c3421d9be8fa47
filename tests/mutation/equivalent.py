"""The reviewed list of mutants that do the same as the package, so that no test can tell them apart."""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

FILE = Path(__file__).with_name("equivalent.toml")


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


def listed(file: Path = FILE) -> Sequence[Equivalent]:
    """All entries of the list."""
    return [
        Equivalent(module, entry["line"], entry["mutant"], entry["reason"])
        for module, entries in tomllib.loads(file.read_text()).items()
        for entry in entries
    ]


def by_change(entries: Sequence[Equivalent], module: str) -> Mapping[tuple[str, str], Equivalent]:
    """The entries of a module by the lines without and with the fault."""
    return {(entry.line, entry.mutant): entry for entry in entries if entry.module == module}
