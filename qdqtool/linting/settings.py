"""Settings of a project: ``qdqtool.toml``, or ``[tool.qdqtool]`` in ``pyproject.toml``.

The keys of a ``[[check]]`` table are the long names of options, so that an option is declared once for both.
"""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec

from qdqtool.errors import ArgumentError, UsageError
from qdqtool.linting import rules
from qdqtool.linting.findings import Severity
from qdqtool.linting.policy import Policy
from qdqtool.models import targets
from qdqtool.models.plugins import parse_plugin_ops
from qdqtool.options import COMMAND_LINE, Option, Values, read
from qdqtool.registry import suggestion
from qdqtool.samples.script import split_script

OWN_FILE = "qdqtool.toml"
SHARED_FILE = "pyproject.toml"
MAX_BYTES = 1 << 20
HINT = "`qdqtool explain validate` lists the settings"
LIST_HINT = "`qdqtool explain ci` has an example"
NAMES_FILE = frozenset({"file", "output", "binary"})
"""Forms of options that name a file; only a table may give them, because a file belongs to one model."""
_FORMS: Mapping[str, tuple[Any, str]] = {
    "flag": (bool, "true or false"),
    "switch": (bool, "true or false"),
    "integer": (int, "an integer"),
    "number": (int | float, "a number"),
}
"""The type of the values of options by form, and its description; other forms are text."""

FailOn = Literal["error", "warning", "never"]


class Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, rename="kebab"):
    """The settings of one file; a missing setting is None.

    Attributes:
        targets: Target ids.
        sm: Compute capabilities of the GPUs that will run the engine, as ``8.6`` or ``86``.
        select: Prefixes of rule codes to apply.
        extend_select: Further prefixes to apply.
        ignore: Prefixes to leave out.
        fail_on: The lowest severity of findings that fail the run.
        plugin_ops: Operators that the TensorRT of the project has as plugins, as ``DOMAIN::NAME``.
        parser: Whether TensorRT's parser is asked too. None asks it if it is installed and the model is not large.
        baseline: File of known findings, relative to the settings' folder.
        severity: Severity by prefix.
        per_model_ignores: Prefixes by glob over model paths, relative to the settings' folder.
        per_node_ignores: Prefixes by glob over node names.
        check: Models for ``qdqtool check`` without MODEL: ``model``, and options of ``check`` by their long names, with
            paths relative to the settings' folder.
    """

    targets: list[str] | None = None
    sm: list[str] | None = None
    select: list[str] | None = None
    extend_select: list[str] | None = None
    ignore: list[str] | None = None
    fail_on: FailOn | None = None
    plugin_ops: list[str] | None = None
    parser: bool | None = None
    baseline: str | None = None
    severity: dict[str, Severity] | None = None
    per_model_ignores: dict[str, list[str]] | None = None
    per_node_ignores: dict[str, list[str]] | None = None
    check: list[dict[str, Any]] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of a run, from the file and the command line.

    Attributes:
        source: The settings file, or None.
        fail_on: The lowest severity of findings that fail the run.
        baseline: File of known findings, or None.
        policy: Targets and rules.
    """

    source: Path | None
    fail_on: FailOn
    baseline: Path | None
    policy: Policy


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedModel:
    """One ``[[check]]`` table."""

    model: Path
    values: Values


def find_config(folder: Path) -> Path | None:
    """Find the nearest settings file in ``folder`` or above it; ``qdqtool.toml`` precedes ``pyproject.toml``.

    A ``pyproject.toml`` without ``[tool.qdqtool]`` is skipped.
    """
    folder = folder.absolute()
    for place in (folder, *folder.parents):
        if (place / OWN_FILE).is_file():
            return place / OWN_FILE
        if (place / SHARED_FILE).is_file() and _table(place / SHARED_FILE) is not None:
            return place / SHARED_FILE
    return None


def read_config(path: Path) -> Config:
    """Decode a file of settings strictly.

    Raises:
        UsageError: The file cannot be read, or has an unknown key, target or rule, or a value of the wrong type.
    """
    table = _table(path)
    for key in table or {}:
        legal = Config.__struct_encode_fields__
        if key not in legal:
            raise UsageError(
                f"{path}: unknown setting '{key}'; legal: {', '.join(legal)}{suggestion(key, legal)}", hint=HINT
            )
    try:
        config = msgspec.convert(table or {}, Config)
    except msgspec.ValidationError as error:
        said = str(error).replace("`", "'").replace(" | null", "")
        raise UsageError(f"{path}: {said}", hint=HINT) from None
    _check_names(path, config)
    return config


def read_listed(path: Path, options: Sequence[Option]) -> tuple[ListedModel, ...]:
    """Read the models that a file of settings lists.

    Args:
        path: The file; paths in it are relative to its folder.
        options: The options that a table may have.

    Raises:
        UsageError: The file cannot be read; a table has an unknown key, a value of the wrong type, or a script; or two
            tables have the same model.
    """
    known = {flag.removeprefix("--"): each for each in options for flag in each.flags or (each.flag,)}
    found: list[ListedModel] = []
    for number, table in enumerate(read_config(path).check or (), start=1):
        try:
            found.append(_listed(table, path.parent, known))
        except UsageError as error:
            raise UsageError(f"{path}: [[check]] {number}: {error.message}", hint=error.hint) from None
    numbers: dict[Path, int] = {}
    for number, each in enumerate(found, start=1):
        first = numbers.setdefault(each.model.resolve(), number)
        if first != number:
            raise UsageError(f"{path}: [[check]] {number}: model '{each.model}' is already in [[check]] {first}")
    return tuple(found)


def settle(given: Config, *, isolated: bool, folder: Path | None = None) -> Settings:
    """Combine the settings of the nearest file with ``given``, which takes precedence.

    Args:
        given: The settings from the command line. ``extend_select`` is added to the file's ``extend_select``;
            ``baseline`` is relative to the working directory.
        isolated: Whether to read no settings file.
        folder: The folder in which the search for a file starts; None for the working directory.
    """
    source = None if isolated else find_config(folder or Path.cwd())
    stored = read_config(source) if source is not None else Config()
    select = given.select if given.select is not None else stored.select
    policy = Policy(
        targets=tuple(given.targets or stored.targets or Policy().targets),
        compute_capabilities=targets.capabilities(given.sm or stored.sm or ()),
        select=None if select is None else tuple(select),
        extend_select=(*(stored.extend_select or ()), *(given.extend_select or ())),
        ignore=tuple(given.ignore if given.ignore is not None else stored.ignore or ()),
        severity=stored.severity or {},
        per_model_ignores={glob: tuple(codes) for glob, codes in (stored.per_model_ignores or {}).items()},
        per_node_ignores={glob: tuple(codes) for glob, codes in (stored.per_node_ignores or {}).items()},
        plugin_ops=parse_plugin_ops(given.plugin_ops or stored.plugin_ops or ()),
        parser=given.parser if given.parser is not None else stored.parser,
        folder=source.parent if source is not None else None,
    )
    return Settings(
        source=source,
        fail_on=given.fail_on or stored.fail_on or "error",
        baseline=_baseline(given, stored, source),
        policy=policy,
    )


def _listed(table: Mapping[str, Any], folder: Path, known: Mapping[str, Option]) -> ListedModel:
    values: Values = {}
    for key, value in table.items():
        option = known.get(key.replace("_", "-"))
        if key == "model":
            continue
        if option is None:
            raise UsageError(f"unknown key '{key}'{suggestion(key, known)}", hint=LIST_HINT)
        if option.name in values:
            raise UsageError(f"{key} is given twice, as {' and '.join(option.flags)}")
        values |= read([option], {option.name: _word(key, option, value, folder)}, COMMAND_LINE)
    model = table.get("model")
    if not isinstance(model, str):
        raise UsageError(f"'model' is {'absent' if model is None else repr(model)}; expected a path", hint=LIST_HINT)
    return ListedModel(model=folder / model, values=values)


def _word(key: str, option: Option, value: Any, folder: Path) -> Any:
    """Return a value of a table as the command line gives it.

    Raises:
        UsageError: It has another type, is not legal, or names a script or a file to write.
    """
    kind = option.kind
    if kind.form in {"output", "binary"}:
        raise UsageError(f"{key} would write a file; a settings file must not write files")
    if kind.form == "operators":
        raise UsageError(f"{key} is allowed on the command line only")
    words = value if isinstance(value, list) and kind.is_repeated else [value]
    expected, name = _FORMS.get(kind.form, (str, "a string or a list of strings" if kind.is_repeated else "a string"))
    if kind.words:
        name = f"one of {', '.join(kind.words)}"
    if kind.minimum is not None:
        name = f"{name} from {kind.minimum} up"
    is_typed = all(isinstance(word, expected) and isinstance(word, bool) == (expected is bool) for word in words)
    if not is_typed or (kind.words and value not in kind.words) or (kind.minimum is not None and value < kind.minimum):
        raise UsageError(f"{key} is {value!r}; expected {name}")
    if (kind.form == "file" or option.name == "metric") and split_script(value) is not None:
        raise UsageError(f"{key} names the script {value}; a settings file must not run code")
    if kind.form == "file":
        return folder / value
    return tuple(words) if kind.is_repeated else value


def _baseline(given: Config, stored: Config, source: Path | None) -> Path | None:
    if given.baseline is not None:
        return Path(given.baseline)
    return source.parent / stored.baseline if source is not None and stored.baseline is not None else None


def _table(path: Path) -> dict[str, Any] | None:
    try:
        if path.stat().st_size > MAX_BYTES:
            raise UsageError(f"{path} is larger than {MAX_BYTES >> 20} MiB")
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None
    # UnicodeDecodeError and TOMLDecodeError are ValueErrors; deeply nested tables raise RecursionError.
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is not valid TOML: {error}") from None
    if path.name != SHARED_FILE:
        return document
    tool = document.get("tool")
    found = tool.get("qdqtool") if isinstance(tool, dict) else None
    if found is not None and not isinstance(found, dict):
        raise UsageError(f"{path}: [tool.qdqtool] is not a table", hint=HINT)
    return found


def _check_names(path: Path, config: Config) -> None:
    prefixes = [*(config.select or ()), *(config.extend_select or ()), *(config.ignore or ()), *(config.severity or ())]
    for table in (config.per_model_ignores, config.per_node_ignores):
        prefixes += [prefix for codes in (table or {}).values() for prefix in codes]
    try:
        for prefix in prefixes:
            rules.matching(prefix)
        for target in config.targets or ():
            targets.get(target)
        targets.capabilities(config.sm or ())
        parse_plugin_ops(config.plugin_ops or (), "plugin-ops")
    except (ArgumentError, UsageError) as error:
        raise UsageError(f"{path}: {error.message}", hint=error.hint) from None
