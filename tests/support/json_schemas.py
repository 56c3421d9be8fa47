"""The JSON Schemas of everything that qdqtool writes or reads as JSON or TOML, made from the types.

``qdqtool/reports/schemas`` keeps them as files, which ``qdqtool schema`` prints and ``make generated`` writes. A report
has a schema because it has a text renderer. A file format gets one by a line in ``FILES``.
"""

import inspect
import json
import re
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import click
import docstring_parser
import msgspec

from qdqtool.accuracy.layers import noise_file
from qdqtool.cli import recipe_file
from qdqtool.cli.commands import check, convert
from qdqtool.cli.declared import DeclaredOption
from qdqtool.engines.build import manifest
from qdqtool.engines.tensorrt import kernels
from qdqtool.jobs import quantize_files
from qdqtool.linting import baseline, settings
from qdqtool.quantization.planning import plan_file
from qdqtool.quantization.ranges import file as ranges_file
from qdqtool.quantization.ranges import file_content
from qdqtool.reports import failure, text
from qdqtool.results import SCHEMA_VERSION, Report

DIALECT = "https://json-schema.org/draft/2020-12/schema"
Schema = dict[str, Any]


@dataclass(frozen=True)
class FileFormat:
    """A file that qdqtool reads.

    Attributes:
        content: The type of its content.
        versions: The values of ``schema_version`` that are read; empty where it has none.
        about: What it is, in one line.
    """

    content: type
    versions: tuple[int, ...]
    about: str


FILES = {
    "baseline-file": FileFormat(
        baseline.Baseline, (baseline.SCHEMA_VERSION,), "Accepted findings, of `validate --write-baseline`."
    ),
    "curve-file": FileFormat(
        quantize_files.CurveFile, (quantize_files.CURVE_VERSION,), "Accuracy against cost, of `quantize --pareto`."
    ),
    "layers-file": FileFormat(
        kernels.LayersFile, (kernels.LAYERS_VERSION,), "Kernels of an engine, of `build --export-layer-info`."
    ),
    "manifest-file": FileFormat(manifest.Manifest, (manifest.SCHEMA_VERSION,), "ENGINE.manifest.json, of `build`."),
    "plan-file": FileFormat(plan_file.PlanFile, (plan_file.SCHEMA_VERSION,), "Plan of `insert`, as JSON or TOML."),
    "ranges-file": FileFormat(
        file_content.RangesFile, ranges_file.READ_VERSIONS, "Ranges of activations, of `calibrate`."
    ),
    "sensitivity-file": FileFormat(
        noise_file._File, (noise_file.SCHEMA_VERSION,), "Noise of each layer, of `quantize --sensitivity`."
    ),
    "settings-file": FileFormat(settings.Config, (), "Settings of `validate`, and models of `check`: qdqtool.toml."),
}

RENAMED = {
    "engine_map": "inspect-engine",
    "findings": "validate",
    "fixes": "validate-fix",
    "layer_map": "inspect-layers",
    "manual": "explain-manual",
    "matches": "quantize-matches",
    "page": "explain-page",
    "rule": "explain-rule",
    "settings": "validate-settings",
    "statistics": "validate-statistics",
}
"""Schemas of reports whose text renderer is not named after the command that prints them."""


@cache
def reports() -> Mapping[str, type]:
    """The type of each report by the name of its schema."""
    found: dict[str, type] = {"failure": failure.FailureReport}
    for kind in sorted(text.RENDERERS):
        found[RENAMED.get(kind, kind.replace("_", "-"))] = typing.get_type_hints(text.renderer(kind))["report"]
    return found


@cache
def schemas() -> Mapping[str, Schema]:
    """Every schema by its name."""
    made = {name: _report_schema(name, report) for name, report in reports().items()}
    made |= {name: _file_schema(name, found) for name, found in FILES.items()}
    made["recipe-file"] = _recipe_schema()
    made["settings-file"]["properties"]["check"]["anyOf"][0]["items"] = _listed_model()
    return json.loads(json.dumps(dict(sorted(made.items()))))  # tuples, as defaults are, become arrays


def closed(schema: Any) -> Any:
    """The schema with every object closed: a key that is not declared is a fault."""
    if isinstance(schema, list):
        return [closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: closed(value) for key, value in schema.items()}
    return {**found, "additionalProperties": False} if isinstance(found.get("properties"), dict) else found


def _report_schema(name: str, report: type) -> Schema:
    top, definitions = _components(report)
    for each in (top, *definitions.values()):
        if "properties" in each:
            each["required"] = list(each["properties"])  # msgspec writes every field of a dataclass
            each["properties"] = {key: _without_default(value) for key, value in each["properties"].items()}
    if issubclass(report, Report):
        made_by = {"description": "The version of qdqtool that made the report.", "type": "string"}
        top["properties"] = {"qdqtool_version": made_by, **top["properties"]}
        top["required"] = ["qdqtool_version", *top["required"]]
    finite = [_nullable_numbers(each) for each in (top, *definitions.values())]
    return _document(
        name, _first_paragraph(report), finite[0], dict(zip(definitions, finite[1:], strict=True)), (SCHEMA_VERSION,)
    )


def _file_schema(name: str, found: FileFormat) -> Schema:
    top, definitions = _components(found.content)
    return _document(name, found.about, top, definitions, found.versions)


def _recipe_schema() -> Schema:
    """The schema of recipes, which have the options of ``convert``: click has their types, and no class of ours."""
    context = click.Context(convert.command, info_name="convert")
    properties = {
        recipe_file.key_of(option): {"description": recipe_file._help(context, option), **_value_of(option)}
        for option in recipe_file._options(convert.command)
    }
    top = {"type": "object", "properties": dict(sorted(properties.items())), "additionalProperties": False}
    return _document("recipe-file", "Options of `convert --recipe`, as TOML.", top, {}, ())


def _listed_model() -> Schema:
    """The schema of a ``[[check]]`` table of the settings, which has a model and the options of its check."""
    context = click.Context(check.command, info_name="check")
    declared = [each for each in check.command.params if isinstance(each, DeclaredOption)]
    options = [each for each in declared if not recipe_file._acts(each)]
    properties = {
        flag.removeprefix("--"): {"description": recipe_file._help(context, each), **_value_of(each)}
        for each in options
        for flag in each.opts
        if flag.startswith("--")
    }
    properties["model"] = {"description": "The file of the model.", "type": "string"}
    properties = dict(sorted(properties.items()))
    return {"type": "object", "properties": properties, "required": ["model"], "additionalProperties": False}


def _value_of(option: click.Option) -> Schema:
    """What :mod:`qdqtool.cli.recipe_file` takes for an option."""
    if option.is_flag:
        return {"type": "boolean"}
    if option.multiple:
        return {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}
    if isinstance(option.type, click.Choice):
        return {"enum": list(option.type.choices)}
    kinds = {click.types.IntParamType: "integer", click.types.FloatParamType: "number"}
    kind = next((word for each, word in kinds.items() if isinstance(option.type, each)), "string")
    limits = {"minimum": getattr(option.type, "min", None), "maximum": getattr(option.type, "max", None)}
    return {"type": kind, **{name: limit for name, limit in limits.items() if limit is not None}}


def _document(
    name: str, about: str, top: Schema, definitions: Mapping[str, Schema], versions: tuple[int, ...]
) -> Schema:
    properties = top.pop("properties")
    required = top.pop("required", [])
    if versions:
        values = {"const": versions[0]} if len(versions) == 1 else {"enum": list(versions)}
        version = {"description": "Changes where readers have to change.", "type": "integer", **values}
        properties = {"schema_version": version} | {
            key: value for key, value in properties.items() if key != "schema_version"
        }
        required = list(dict.fromkeys(["schema_version", *required]))
    rest = {key: value for key, value in top.items() if key not in {"title", "description"}}
    head = {"$schema": DIALECT, "$id": f"urn:qdqtool:{name}", "title": f"qdqtool {name}", "description": about}
    document = {
        **head,
        **rest,
        "properties": properties,
        "required": required,
        "$defs": dict(sorted(definitions.items())),
    }
    return {key: value for key, value in document.items() if value not in ({}, [])}


def _components(content: type) -> tuple[Schema, dict[str, Schema]]:
    """The schema of a type without the reference to it, and those of the types in it, with descriptions."""
    (top,), found = msgspec.json.schema_components([content], schema_hook=_hook, ref_template="#/$defs/{name}")
    classes = {each.__name__: each for each in _classes(content, set())}
    definitions = {name: _described(schema, classes[name]) for name, schema in found.items()}
    renamed = {name.lstrip("_"): _public_references(schema) for name, schema in definitions.items()}
    assert len(renamed) == len(found)
    return renamed.pop(top["$ref"].rpartition("/")[2].lstrip("_")), renamed


def _hook(kind: type) -> Schema:
    if kind is Report:  # any report: its own schema is that of its command
        return {"type": "object"}
    if kind is not Path:
        raise NotImplementedError(f"say in _hook how qdqtool/results.py writes {kind}")
    return {"type": "string"}


def _without_default(schema: Schema) -> Schema:
    return {key: value for key, value in schema.items() if key != "default"}


def _classes(hint: Any, seen: set[Any]) -> Iterator[type]:
    """Every class of ours in a hint and in the fields of those classes."""
    if isinstance(hint, type) and hint.__module__.startswith("qdqtool") and hint not in seen:
        seen.add(hint)
        yield hint
        for field in typing.get_type_hints(hint, include_extras=True).values():
            yield from _classes(field, seen)
    for argument in typing.get_args(hint):
        yield from _classes(argument, seen)


def _described(schema: Schema, kind: type) -> Schema:
    """The schema with the text of the class and of its attributes, and without the defaults and titles of msgspec."""
    said = {name: text for base in reversed(kind.__mro__) for name, text in _attributes(base)}
    found = {key: value for key, value in schema.items() if key != "title"}
    found["description"] = _first_paragraph(kind)
    if "properties" in found:
        tag = found["properties"].pop(_tag_field(kind), None)
        names = dict(zip(found["properties"], _field_names(kind), strict=True))
        found["properties"] = {
            key: _with_text(value, said.get(names[key])) for key, value in found["properties"].items()
        }
        if tag is not None:
            found["properties"] = {_tag_field(kind): {"description": "What it is.", **tag}} | found["properties"]
    return found


def _tag_field(kind: type) -> str | None:
    """The key that tells a struct from the others of a union; None for any other class."""
    return kind.__struct_config__.tag_field if issubclass(kind, msgspec.Struct) else None


def _field_names(kind: type) -> tuple[str, ...]:
    if issubclass(kind, msgspec.Struct):
        return kind.__struct_fields__
    return tuple(field.name for field in msgspec.inspect.type_info(kind).fields)


def _with_text(schema: Schema, said: str | None) -> Schema:
    return {**({"description": said} if said else {}), **schema}


def _attributes(kind: type) -> Iterator[tuple[str, str]]:
    if kind.__module__.startswith("qdqtool"):
        for each in docstring_parser.parse_from_object(kind).params:
            yield each.arg_name, _in_json(each.description or "")


def _first_paragraph(kind: type) -> str:
    return _in_json(docstring_parser.google.parse(inspect.getdoc(kind) or "").short_description or "")


def _in_json(said: str) -> str:
    """A text of a docstring, in the words of JSON."""
    plain = re.sub(r":\w+:`~?([^`]*)`", r"\1", said).replace("``", "'")
    words = {"None": "null", "True": "true", "False": "false"}
    return re.sub(r"\b(None|True|False)\b", lambda match: words[match[0]], " ".join(plain.split()))


def _public_references(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_public_references(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: _public_references(value) for key, value in schema.items()}
    if "$ref" in found:
        found["$ref"] = found["$ref"].replace("/_", "/")
    return found


def _nullable_numbers(schema: Any) -> Any:
    """The schema with null beside every number: that is how ``report/json.py`` writes NaN and infinities."""
    if isinstance(schema, list):
        return [_nullable_numbers(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: _nullable_numbers(value) for key, value in schema.items()}
    return {**found, "type": ["number", "null"]} if found.get("type") == "number" else found
