"""One real message for each entry of the table of known messages, with the model that it is of: data of the tests."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.refused.row import Row
from qdqtool.engines.tensorrt.known_refusals import KNOWN

MADE = ("node tests", "node tests, integers stored", "rule examples", "variations of Q/DQ", "odd models")
"""Corpora whose models can be made again anywhere."""


def write(path: Path, rows: Iterable[Row]) -> None:
    """Write the messages of the smallest models."""
    path.write_text(json.dumps(list(_messages(rows)), indent=1) + "\n", encoding="utf-8")


def _messages(rows: Iterable[Row]) -> Iterator[dict[str, Any]]:
    ordered = sorted((row for row in rows if row.raw), key=lambda row: (row.corpus not in MADE, row.model, row.name))
    for number, entry in enumerate(KNOWN):
        of_entry = [row for row in ordered if _first_entry(row.raw) == number]
        # An entry with alternatives gets one message for each part of its pattern that finds anything.
        forms = {row.message: row for row in reversed(of_entry)} if "|" in entry.pattern.pattern else {}
        for row in list(forms.values()) or of_entry[:1]:
            yield {
                "corpus": row.corpus,
                "model": row.name,
                "stage": row.stage,
                "operator": row.operator,
                "message": row.raw,
                "reason": entry.reason,
            }


def _first_entry(message: str) -> int | None:
    return next((number for number, entry in enumerate(KNOWN) if entry.pattern.search(message)), None)
