"""What became of one model: the message that refuses it, and what our report says besides."""

import re
from dataclasses import dataclass
from typing import Any

from benchmarks.refused.corpora import Source
from benchmarks.refused.judge import Judge, Judged
from benchmarks.refused.messages import general
from qdqtool.engines.build.refusal import FaultLocator
from qdqtool.engines.report import Refusal
from qdqtool.engines.tensorrt import backends
from qdqtool.engines.tensorrt.parser_errors import builder_refusals, parser_refusals
from qdqtool.errors import QdqError
from qdqtool.models.graph.io.load import load_model
from qdqtool.models.graph.model import Model

BACKEND = "tensorrt-rtx"
OPEN_SIZE = 64
"""The size of an open dimension that is not the first one."""

_QUOTED = re.compile(r"'[^']*'")
_NUMBER = re.compile(r"-?\b\d[\w.]*")


@dataclass(frozen=True, slots=True)
class Row:
    """One model.

    Attributes:
        corpus: Where it comes from.
        name: Its name there.
        stage: ``built``, ``parse``, ``build``; ``unread`` where we refuse it before.
        message: The builder's message in general form, or how its process ended.
        raw: The message as it was; the whole of it is kept.
        operator: The operator that the parser names.
        reason: Our reason, in general form; empty where the message is not explained.
        has_node: Whether a node or tensor is named, by the builder or by our rules.
        has_hint: Whether there is a way out.
        has_fix: Whether ``validate --fix`` knows a remedy.
        model: Bytes of the file.
    """

    corpus: str
    name: str
    stage: str
    message: str = ""
    raw: str = ""
    operator: str | None = None
    reason: str = ""
    has_node: bool = False
    has_hint: bool = False
    has_fix: bool = False
    model: int = 0


def judged(source: Source, judge: Judge) -> Row:
    """Return the row of a model, which the real parser and builder judge."""
    try:
        model = load_model(source.path)
        targets = source.targets or backends.get(BACKEND).resolve_targets((), model)
    except QdqError as error:
        return Row(source.corpus, source.name, "unread", error.message)
    request = {
        "model": str(source.path.resolve()),
        "targets": [f"SM{target.replace('.', '')}" for target in targets],
        "values": dict(source.values),
        "size": OPEN_SIZE,
    }
    found = judge.ask(request)
    if found.stage == "built":
        return Row(source.corpus, source.name, "built")
    return _refused(source, found, model)


def _refused(source: Source, found: Judged, model: Model) -> Row:
    locator = FaultLocator(model, backends.get(BACKEND).target)
    size = source.path.stat().st_size
    if found.end:
        cause = next(locator.all_findings(), None)
        return Row(
            *(source.corpus, source.name, found.stage, found.end),
            reason="a crash or time-out; what the rules find in the model is named",
            has_node=cause is not None and cause.node is not None,
            has_hint=True,
            has_fix=cause is not None and cause.fixable,
            model=size,
        )
    raw, refusal = _first(found)
    located, finding = locator.locate(refusal)
    return Row(
        *(source.corpus, source.name, found.stage, general(raw) or "no words", raw, refusal.op_type),
        reason=_NUMBER.sub("N", _QUOTED.sub("'…'", refusal.reason)) if refusal.explained else "",
        has_node=located.node is not None or located.tensor is not None,
        has_hint=located.hint is not None,
        has_fix=finding is not None and finding.fixable,
        model=size,
    )


def _first(found: Judged) -> tuple[str, Refusal]:
    if found.errors:
        error: dict[str, Any] = found.errors[0]
        return error["message"], parser_refusals([error], [])[0]
    log = [tuple(entry) for entry in found.log]
    return (log[0][1] if log else "", builder_refusals(log, None)[0])
