"""The part of SARIF 2.1.0 that we write, as strict types: an unknown key, a missing one or a wrong type fails.

Written from the OASIS standard (sections 3.13 to 3.58). Keys that the standard has and we do not write are left out.
"""

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

Level = Literal["none", "note", "warning", "error"]
Text = Annotated[str, Meta(min_length=1)]
AbsoluteUri = Annotated[str, Meta(pattern=r"^[a-z][a-z0-9+.-]*:")]
UriReference = Annotated[str, Meta(pattern=r"^[A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=%-]+$")]


class Strict(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    pass


class Message(Strict):
    text: Text
    markdown: Text | UnsetType = UNSET


class ArtifactLocation(Strict):
    uri: UriReference
    uri_base_id: str | UnsetType = UNSET


class Region(Strict):
    start_line: Annotated[int, Meta(ge=1)]


class PhysicalLocation(Strict):
    artifact_location: ArtifactLocation
    region: Region


class LogicalLocation(Strict):
    name: str
    fully_qualified_name: str
    kind: str


class Location(Strict):
    physical_location: PhysicalLocation
    logical_locations: list[LogicalLocation] | UnsetType = UNSET


class ResultProperties(Strict):
    target: str
    effect: str


class Result(Strict):
    rule_id: str
    rule_index: Annotated[int, Meta(ge=-1)]
    level: Level
    message: Message
    locations: Annotated[list[Location], Meta(min_length=1)]
    partial_fingerprints: dict[str, str]
    properties: ResultProperties


class Configuration(Strict):
    level: Level


class RuleProperties(Strict):
    tags: list[str]


class Rule(Strict):
    id: Text
    name: str
    short_description: Message
    full_description: Message
    help: Message
    default_configuration: Configuration
    properties: RuleProperties
    help_uri: AbsoluteUri | UnsetType = UNSET


class Driver(Strict):
    name: Text
    version: str
    rules: list[Rule]


class Tool(Strict):
    driver: Driver


class Notification(Strict):
    level: Level
    message: Message
    locations: list[Location]


class Invocation(Strict):
    execution_successful: bool
    tool_execution_notifications: list[Notification]


class RunProperties(Strict):
    ignored: dict[str, int]
    settings: str | None
    without_qdq: list[str]


class Run(Strict):
    tool: Tool
    invocations: list[Invocation]
    column_kind: Literal["utf16CodeUnits", "unicodeCodePoints"]
    results: list[Result]
    properties: RunProperties


class Log(Strict):
    version: Literal["2.1.0"]
    runs: list[Run]
    schema: AbsoluteUri = msgspec.field(name="$schema")


def read(text: str) -> Run:
    """The one run of a SARIF document, checked."""
    (run,) = msgspec.json.decode(text.encode(), type=Log).runs
    ids = [rule.id for rule in run.tool.driver.rules]
    assert len(set(ids)) == len(ids)
    for result in run.results:
        assert ids[result.rule_index] == result.rule_id
    return run
