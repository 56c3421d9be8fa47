"""Rows of results in a JSON file, by their names."""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

Kind = TypeVar("Kind")


def read(path: Path, from_json: Callable[[str], Kind]) -> dict[str, Kind]:
    """Return the rows of a file by their names."""
    return {name: from_json(json.dumps(each)) for name, each in json.loads(path.read_text(encoding="utf-8")).items()}


def write(path: Path, rows: Mapping[str, Any]) -> None:
    """Write rows to a file, aside first: what is interrupted leaves the old one."""
    aside = path.with_name(f"{path.name}.part")
    aside.write_text(
        json.dumps({name: asdict(each) for name, each in sorted(rows.items())}, indent=1), encoding="utf-8"
    )
    aside.replace(path)
