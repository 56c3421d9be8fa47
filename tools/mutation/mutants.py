"""The mutants of a module: what is changed, where, and the text of the module with the change."""

import difflib
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code

from tools.mutation.operators import operators

NO_FAULT = "no fault"


@dataclass(frozen=True, slots=True)
class Mutant:
    """One fault in one module.

    Attributes:
        path: The module, from the project's folder.
        operator: Name of the operator in cosmic-ray's provider; :data:`NO_FAULT` for the module as it is.
        occurrence: Which of its places in the module.
        lines: First and last line that are changed, from 1.
        identity: A hash of the module's text and of the fault.
    """

    path: str
    operator: str
    occurrence: int
    lines: tuple[int, int]
    identity: str

    def text(self, source: str) -> str:
        """The module with the fault."""
        if self.operator == NO_FAULT:
            return source
        mutated = mutate_code(source, operators()[self.operator](), self.occurrence)
        assert mutated is not None
        return mutated

    def change(self, source: str) -> tuple[str, str]:
        """The changed lines without and with the fault, each joined to one."""
        removed, added = [], []
        for line in difflib.ndiff(source.splitlines(), self.text(source).splitlines()):
            if line.startswith("- "):
                removed.append(line[2:].strip())
            elif line.startswith("+ "):
                added.append(line[2:].strip())
        return " ".join(removed), " ".join(added)


def mutants_of(path: Path, root: Path) -> Iterator[Mutant]:
    """All mutants of a module, in the order of its lines.

    Args:
        path: The module.
        root: The folder of the project.
    """
    source = path.read_text()
    nodes = list(ast_nodes(get_ast(source)))
    provider = operators()
    name = str(path.relative_to(root))
    found = []
    for operator in provider:
        instance = provider[operator]()
        places = [place for node in nodes for place in instance.mutation_positions(node)]
        for occurrence, (start, end) in enumerate(places):
            identity = hashlib.sha256(f"{name}\0{source}\0{operator}\0{occurrence}".encode()).hexdigest()[:16]
            found.append(Mutant(name, operator, occurrence, (start[0], end[0]), identity))
    yield from sorted(found, key=lambda mutant: (mutant.lines, mutant.operator, mutant.occurrence))
