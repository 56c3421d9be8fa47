"""What is known of mutants from earlier runs, one database of cosmic-ray for each module.

A mutant stays killed while its module and the file of the test that failed are as they were. It stays alive while its
module and the files of all tests that were asked are.
"""

import contextlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cosmic_ray.work_db import WorkDB
from cosmic_ray.work_item import MutationSpec, TestOutcome, WorkerOutcome, WorkItem, WorkResult

from tools.mutation.mutants import Mutant


@dataclass(frozen=True, slots=True)
class Result:
    """What came of a mutant.

    Attributes:
        killer: The test that failed on it; None if it is alive.
        asked: How many tests were asked, at most.
        reaching: How many tests reach it.
        files: Hashes of the test files that this depends on.
    """

    killer: str | None
    asked: int
    reaching: int
    files: Mapping[str, str]


class Results:
    """The results of one module.

    Args:
        folder: Where databases are kept.
        path: The module, from the project's folder.
    """

    def __init__(self, folder: Path, path: str) -> None:
        file = folder / Path(path).with_suffix(".sqlite")
        file.parent.mkdir(parents=True, exist_ok=True)
        self._database = WorkDB(file, WorkDB.Mode.create)

    def begin(self, mutants: Sequence[Mutant]) -> None:
        """Forget the mutants of another text of the module."""
        wanted = {mutant.identity for mutant in mutants}
        if {item.job_id for item in self._database.work_items} != wanted:
            self._database.clear()
            self._database.add_work_items(
                WorkItem.single(mutant.identity, _specification(mutant)) for mutant in mutants
            )

    def known(self) -> Mapping[str, Result]:
        """Results by the identity of the mutant."""
        found = {}
        for identity, stored in self._database.results:
            with contextlib.suppress(TypeError, ValueError):
                found[identity] = Result(**json.loads(stored.output))
        return found

    def keep(self, identity: str, result: Result) -> None:
        """Store a result."""
        output = {"killer": result.killer, "asked": result.asked, "reaching": result.reaching, "files": result.files}
        outcome = TestOutcome.SURVIVED if result.killer is None else TestOutcome.KILLED
        self._database.set_result(identity, WorkResult(WorkerOutcome.NORMAL, json.dumps(output), outcome))

    def close(self) -> None:
        """Close the database."""
        self._database.close()


def _specification(mutant: Mutant) -> MutationSpec:
    first, last = mutant.lines
    return MutationSpec(Path(mutant.path), mutant.operator, mutant.occurrence, (first, 0), (last, 1))
