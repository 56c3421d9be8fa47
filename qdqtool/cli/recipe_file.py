"""Read options from a TOML file, and write such a file with all options.

The file has the options of the command line by their long names, and click checks the values. Options on the command
line have precedence. A recipe may come from a stranger, so it must not name scripts, libraries or files to write; only
the command line may.
"""

import json
import textwrap
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from qdqtool.cli.declared import DeclaredOption
from qdqtool.cli.options import OutputPath
from qdqtool.registry import suggestion

MAX_BYTES = 1 << 20
HINT = "`qdqtool convert --write-recipe` prints a recipe with all options"
_ON_COMMAND_LINE = frozenset(
    {"recipe", "write_recipe", "profile", "output", "help", "help_all", "quiet", "verbose", "plugins"}
)
_WIDTH = 98


def read_recipe(context: click.Context, _parameter: click.Parameter, path: Path | None) -> None:
    """Make the options in a recipe the defaults of the command.

    Raises:
        UsageError: The recipe cannot be read, is not TOML, or has an unknown option or a value of the wrong type.
    """
    if path is None:
        return
    known = {key_of(option): option for option in _options(context.command)}
    values = {}
    for key, value in _table(path).items():
        option = known.get(key.replace("_", "-"))
        if option is None:
            raise _unknown(context.command, path, key, known)
        values[str(option.name)] = _checked(context, option, value, path)
    context.default_map = values


def write_recipe(context: click.Context, _parameter: click.Parameter, asked: bool) -> None:
    """Print a recipe with all options, and end the command."""
    if asked:
        click.echo(recipe_text(context))
        context.exit(0)


def recipe_text(context: click.Context) -> str:
    """Return a recipe with every option of a command, its help, and its default if it has one."""
    head = (
        f"A recipe of `qdqtool {context.info_name}`: its options with their defaults. Options on the command line "
        "take precedence. Paths are relative to the folder of this file."
    )
    lines = [*_comment(head)]
    for option in _options(context.command):
        lines += ["", *_comment(_help(context, option)), _assignment(option, option.get_default(context))]
    return "\n".join(lines)


def key_of(option: click.Option) -> str:
    """Return the name of an option in a recipe: its first long name."""
    return next(flag for flag in option.opts if flag.startswith("--")).removeprefix("--")


def _options(command: click.Command) -> list[click.Option]:
    """Return the options that a recipe may have."""
    found = [each for each in command.params if isinstance(each, click.Option)]
    return [each for each in found if each.name not in _ON_COMMAND_LINE and not _acts(each)]


def _acts(option: click.Option) -> bool:
    """Whether the value is a file to write, or a file with operators."""
    is_output = isinstance(option.type, OutputPath) or option.metavar == "FORMAT=FILE"
    return is_output or (isinstance(option, DeclaredOption) and option.declaration.kind.form == "operators")


def _table(path: Path) -> Mapping[str, Any]:
    from qdqtool.errors import UsageError

    try:
        if path.stat().st_size > MAX_BYTES:
            raise UsageError(f"recipe {path} is larger than {MAX_BYTES >> 20} MiB")
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"recipe {path} cannot be read: {error.strerror}", hint=HINT) from None
    # UnicodeDecodeError and TOMLDecodeError are ValueErrors; deeply nested tables raise RecursionError.
    except (ValueError, RecursionError) as error:
        raise UsageError(f"recipe {path} is not valid TOML: {error}", hint=HINT) from None


def _unknown(command: click.Command, path: Path, key: str, known: Mapping[str, object]) -> Exception:
    from qdqtool.errors import UsageError

    others = {key_of(each) for each in command.params if isinstance(each, click.Option)}
    if key.replace("_", "-") in others:
        return UsageError(
            f"recipe {path}: {key} is allowed on the command line only",
            hint=f"remove it from the recipe, and give `--{key.replace('_', '-')}` to the command",
        )
    return UsageError(f"recipe {path}: '{key}' is not an option{suggestion(key, known)}", hint=HINT)


def _checked(context: click.Context, option: click.Option, value: Any, path: Path) -> Any:
    """Return a value in the form in which click accepts it from a default map."""
    from qdqtool.errors import UsageError

    where = f"recipe {path}: {key_of(option)}"
    if not _fits(option, value):
        raise UsageError(f"{where} is {_spelled(value)}; expected {_kind(option)[1]}", hint=HINT)
    words = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    if any(_executes(option, word) for word in words):
        raise UsageError(
            f"{where} names a script, but a recipe must not run code",
            hint=f"remove it from the recipe, and give it on the command line: `--{key_of(option)} SCRIPT.py:func`",
        )
    value = _placed(option, [value] if option.multiple and isinstance(value, str) else value, path.parent)
    try:
        option.process_value(context, value)
    except click.BadParameter as error:
        raise UsageError(f"{where}: {error.message}", hint=HINT) from None
    return value


def _fits(option: click.Option, value: Any) -> bool:
    kind, _ = _kind(option)
    if isinstance(value, bool):
        return kind is bool
    return isinstance(value, kind) and (not isinstance(value, list) or all(isinstance(each, str) for each in value))


def _kind(option: click.Option) -> tuple[Any, str]:
    """Return the type of the values of an option in a recipe, and a description of it."""
    if option.is_flag:
        return bool, "true or false"
    if option.multiple:
        return str | list, "a string or a list of strings"
    if isinstance(option.type, click.types.IntParamType):
        return int, "an integer"
    if isinstance(option.type, click.types.FloatParamType):
        return int | float, "a number"
    choices = option.type.choices if isinstance(option.type, click.Choice) else ()
    return str, f"one of {', '.join(map(_spelled, choices))}" if choices else "a string"


def _executes(option: click.Option, word: str) -> bool:
    from qdqtool.samples.script import split_script

    takes_scripts = isinstance(option.type, click.Path) or option.name == "metric"
    return takes_scripts and split_script(word) is not None


def _placed(option: click.Option, value: Any, folder: Path) -> Any:
    """Return a value with its paths relative to the folder of the recipe."""
    return str(folder / value) if isinstance(option.type, click.Path) else value


def _help(context: click.Context, option: click.Option) -> str:
    record = option.get_help_record(context)
    return record[1] if record is not None else ""


def _comment(text: str) -> Iterator[str]:
    yield from (f"# {line}" for line in textwrap.wrap(text, _WIDTH, break_on_hyphens=False))


def _assignment(option: click.Option, default: Any) -> str:
    key = key_of(option)
    if option.multiple:
        return f"{key} = {_spelled([*default] if isinstance(default, tuple | list) else [])}"
    # If there is no default, click has None or a special value.
    if not isinstance(default, str | int | float):
        word = option.metavar or ("true" if option.is_flag else "VALUE")
        return f"# {key} = {_spelled(word) if _kind(option)[0] is str else word}"
    return f"{key} = {_spelled(default)}"


def _spelled(value: Any) -> str:
    """Return a value as TOML."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value)
    if isinstance(value, Sequence):
        return f"[{', '.join(map(_spelled, value))}]"
    return "a table" if isinstance(value, dict) else str(value)
