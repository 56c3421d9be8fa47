"""Write final paths into reports of files that were made in a temporary folder."""

import copy
import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

Value = TypeVar("Value")


def relocated(value: Value, folder: Path) -> Value:
    """Return a report, or a text, with each path in ``folder`` replaced by that in the folder around it.

    Args:
        value: A dataclass, a container, a text or anything else, which stays as it is.
        folder: A temporary folder, whose name stands in no other text.
    """
    found = _changed(value, f"{folder.name}/")
    assert isinstance(found, type(value))
    return found


def _changed(value: object, part: str) -> object:
    if isinstance(value, str):
        # Enumerations of strings are strings too.
        return value.replace(part, "") if part in value else value
    if isinstance(value, tuple):
        return tuple(_changed(each, part) for each in value)
    if isinstance(value, list):
        return [_changed(each, part) for each in value]
    if isinstance(value, Mapping):
        return {key: _changed(each, part) for key, each in value.items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _changed_fields(value, part)
    return value


def _changed_fields(value: object, part: str) -> object:
    assert dataclasses.is_dataclass(value)
    found = copy.copy(value)
    for field in dataclasses.fields(value):
        # Reports are frozen.
        object.__setattr__(found, field.name, _changed(getattr(value, field.name), part))
    return found
