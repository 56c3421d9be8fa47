"""JSON Schemas (draft 2020-12) of reports and files. ``make generated`` writes the JSON files here from the types."""

import json
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from qdqtool.errors import ArgumentError
from qdqtool.registry import suggestion

_SUFFIX = ".json"


@dataclass(frozen=True, slots=True)
class SchemaEntry:
    """A schema in the list of schemas.

    Attributes:
        name: Its name in commands.
        about: Its description in one line.
    """

    name: str
    about: str


@dataclass(frozen=True, slots=True)
class SchemaList:
    """Every schema, sorted by name.

    Attributes:
        schemas: The schemas.
    """

    schemas: tuple[SchemaEntry, ...]


def schema_names() -> tuple[str, ...]:
    """Return the names of the schemas, sorted."""
    found = (each.name for each in files(__name__).iterdir())
    return tuple(sorted(name.removesuffix(_SUFFIX) for name in found if name.endswith(_SUFFIX)))


def schema_text(name: str) -> str:
    """Return a schema as JSON of printable ASCII.

    Raises:
        ArgumentError: There is no schema of that name.
    """
    if name not in schema_names():
        tail = suggestion(name, schema_names())
        raise ArgumentError(f"there is no schema '{name}'{tail}", hint="`qdqtool schema` lists them")
    return json.dumps(_schema(name), indent=2)


def list_schemas() -> SchemaList:
    """List the schemas with their descriptions."""
    return SchemaList(tuple(SchemaEntry(name, str(_schema(name)["description"])) for name in schema_names()))


def _schema(name: str) -> dict[str, Any]:
    """Return the text of a schema file: JSON with one property in each line."""
    found: dict[str, Any] = json.loads((files(__name__) / f"{name}{_SUFFIX}").read_text(encoding="ascii"))
    return found
