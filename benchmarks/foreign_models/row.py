"""What was found of one model that another tool quantized."""

import json
from dataclasses import asdict, dataclass, field
from typing import Any

from benchmarks.networks.row import Left


@dataclass(slots=True)
class Route:
    """One way to an engine.

    Attributes:
        way: Its name.
        failed: The command that failed, with its message; empty where there is an engine.
        planned: Nodes between Q/DQ.
        achieved: Those of them that run in the planned type.
    """

    way: str
    failed: str = ""
    planned: int = 0
    achieved: int = 0


@dataclass(slots=True)
class Row:
    """One model.

    Attributes:
        name: The tool and its mode, with a dot between them.
        version: Of the tool.
        missing: Why the tool wrote no model; empty where it did.
        layers: Nodes with heavy arithmetic in the float model.
        before_db: SQNR of the worst output of the tool's model against the float model.
        before_by: What ran the tool's model.
        findings: Findings of ``validate`` in the tool's model, as ``2 QP101``.
        attempts: The ways that were tried.
        way: The one that was taken; empty where none leads to an engine.
        after_db: SQNR of the final model against the float model.
        change_db: SQNR of the final model against the tool's model.
        planned: Nodes of the final model between Q/DQ.
        achieved: Those of them that run in the planned type.
        fallbacks: Why the others do not.
        left: Findings of ``validate`` in the final model.
        seconds: How long all of it took.
        crash: The last words of a process that ended before it was done.
    """

    name: str
    version: str = ""
    missing: str = ""
    layers: int = 0
    before_db: float | None = None
    before_by: str = ""
    findings: list[str] = field(default_factory=list)
    attempts: list[Route] = field(default_factory=list)
    way: str = ""
    after_db: float | None = None
    change_db: float | None = None
    planned: int = 0
    achieved: int = 0
    fallbacks: list[Left] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    seconds: float = 0
    crash: str = ""

    def to_json(self) -> str:
        """Return it as JSON; infinite SQNR is ``Infinity``, as Python writes it."""
        return json.dumps(asdict(self), indent=1)


def from_json(text: str) -> Row:
    """Return a row that was written by :meth:`Row.to_json`."""
    read: dict[str, Any] = json.loads(text)
    read["attempts"] = [Route(**each) for each in read["attempts"]]
    read["fallbacks"] = [Left(**each) for each in read["fallbacks"]]
    return Row(**read)
