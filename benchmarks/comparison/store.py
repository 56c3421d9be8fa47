"""Results in a JSON file that grows: what is run again replaces what it was, everything else stays."""

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.comparison.contestants import GROUPS, MODEL_OPTIMIZER, ORT, OURS
from benchmarks.comparison.costs import Cost
from benchmarks.comparison.coverage import Coverage, Half
from benchmarks.comparison.engine import Engine
from benchmarks.comparison.growth import Growth
from benchmarks.comparison.measured import FLOAT, Result
from benchmarks.comparison.quality import Quality

TOOLS = (FLOAT, OURS, ORT, MODEL_OPTIMIZER)
_PARTS: dict[str, type] = {
    "baseline": Cost,
    "cost": Cost,
    "coverage": Coverage,
    "engine": Engine,
    "half": Half,
    "plain_few": Cost,
    "plain_many": Cost,
    "few": Cost,
    "many": Cost,
}


def read(path: Path) -> tuple[list[Result], list[Growth]]:
    """What a file holds; nothing if there is no such file."""
    if not path.exists():
        return [], []
    document = json.loads(path.read_text(encoding="utf-8"))
    results = [Result(**_parts(entry)) for entry in document["results"]]
    return results, [Growth(**_parts(entry)) for entry in document["growth"]]


def write(path: Path, results: Iterable[Result], growth: Iterable[Growth]) -> None:
    """One entry a line, so that differences between two files can be read."""
    entries = [asdict(one) for one in results]
    known = [{name: value for name, value in one.items() if name != "half" or value} for one in entries]
    lists = {"results": known, "growth": [asdict(one) for one in growth]}
    parts = [
        f'"{name}": [\n' + ",\n".join(json.dumps(_finite(entry), allow_nan=False) for entry in entries) + "\n]"
        for name, entries in lists.items()
    ]
    path.write_text("{\n" + ",\n".join(parts) + "\n}\n", encoding="utf-8")


def merged(older: Sequence[Result], newer: Sequence[Result], models: Sequence[str]) -> list[Result]:
    """The newer results, and the older ones of other contestants or models.

    Args:
        older: As read.
        newer: As measured.
        models: Their names, as they shall follow each other; others come last, by their names.
    """
    table = {(one.model, one.label): one for one in older}
    for one in newer:
        key = one.model, one.label
        table[key] = one.after(table[key]) if key in table else one
    return sorted(
        table.values(),
        key=lambda one: (_rank(models, one.model), one.model, _rank(TOOLS, one.tool), _rank(GROUPS, one.group)),
    )


def merged_growth(older: Sequence[Growth], newer: Sequence[Growth]) -> list[Growth]:
    """The same for what grows with the number of samples."""
    table = {(one.model, one.label): one for one in older} | {(one.model, one.label): one for one in newer}
    return list(table.values())


def _rank(names: Sequence[str], name: str) -> int:
    return names.index(name) if name in names else len(names)


def _parts(entry: dict[str, Any]) -> dict[str, Any]:
    return {name: value if value is None else _part(name, value) for name, value in entry.items()}


def _part(name: str, value: Any) -> Any:
    if name == "quality":
        return Quality({output: float(figure) for output, figure in value["sqnr"].items()}, value["task"])
    return _PARTS[name](**value) if name in _PARTS else value


def _finite(value: Any) -> Any:
    """JSON has no infinity: it becomes a string that ``float`` reads."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
