"""The options of trtexec, Polygraphy and Model Optimizer, and a parser of their command lines."""

import re
import shlex
import tomllib
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from qdqtool.errors import UsageError, plural
from qdqtool.registry import suggestion

LONGEST_LINE = 100_000
PROGRAMS: Mapping[str, str] = {
    "trtexec": "trtexec",
    "tensorrt_rtx": "trtexec",
    "polygraphy": "polygraphy",
    "modelopt.onnx.quantization": "modelopt",
}
"""The programs that are translated, with the part of the table that has their options."""
MODEL_FILE = "model_file"
"""The name of Polygraphy's positional argument."""

_SPACE = "\0"
"""Stands for a space in a command that a shell would run, which is one word of the line."""

_CONTINUED = re.compile(r"[ \t]*[\\^`][ \t]*\r?\n")
_WINDOWS = re.compile(r"\.exe\b|\b[A-Za-z]:\\|(^|\s)\.\\", re.IGNORECASE)
_ENDS = re.compile(r"(\|\|?|&&?|;|#.*|\d*[<>].*)")
_SUBSTITUTED = re.compile(r"\$\([^)\n]*\)|`[^`\n]+`")
_EXPANDED = re.compile(r"\$[\w({]|`|^~|=~/")


@dataclass(frozen=True, slots=True)
class ToolOption:
    """An option of another tool. The fields after ``arity`` are those of the table.

    Attributes:
        names: The option and its other names.
        arity: How many values it has, as in the table.
    """

    names: tuple[str, ...]
    arity: str
    to: str = ""
    idle: str = ""
    none: str = ""
    lost: str = ""
    gone: str = ""
    why: str = ""

    @property
    def reason(self) -> str:
        """Why there is no counterpart, or what differs; empty if nothing differs."""
        text = self.why or self.idle or self.none or self.lost
        return str(_content()["reasons"].get(text, text))


@dataclass(frozen=True, slots=True)
class GivenOption:
    """An option in a line, with its values.

    Attributes:
        option: The option.
        text: The option with its values, as it was given.
        name: The option.
        values: Its values.
    """

    option: ToolOption
    text: str
    name: str
    values: tuple[str, ...]

    @property
    def value(self) -> str:
        """The value; empty if there is none."""
        return " ".join(self.values)

    def entries(self) -> list[str]:
        """Return the entries of a list: the values, or the parts between commas of a single value."""
        found = self.values if self.option.arity == "=+" else self.value.split(",")
        return [entry.strip() for entry in found if entry.strip()]


@dataclass(frozen=True, slots=True)
class ToolLine:
    """A command line of another tool.

    Attributes:
        program: The program, one of :data:`PROGRAMS`.
        options: The options in their order.
        notes: What a shell would have done with the line, and what was left out.
    """

    program: str
    options: tuple[GivenOption, ...]
    notes: tuple[str, ...]


@cache
def options_of(tool: str) -> tuple[ToolOption, ...]:
    """Return the options of ``trtexec``, ``polygraphy`` or ``modelopt`` in the order of the table."""
    rows = _content()[tool].items()
    parts = ((key.partition("="), fields) for key, fields in rows)
    return tuple(ToolOption(tuple(names.split()), sign + kind, **fields) for (names, sign, kind), fields in parts)


def parse_line(line: str) -> ToolLine:
    """Parse a line that calls one of :data:`PROGRAMS`. No shell reads it, and nothing in it is expanded.

    Raises:
        UsageError: The line calls none of them, or has an option that the program does not have.
    """
    words, notes = _split(line), list[str]()
    end = next((at for at, word in enumerate(words) if _ENDS.fullmatch(word)), len(words))
    if any(map(_program, words[end:])):
        raise UsageError("the line calls a program twice", hint="translate each call by itself, or with --file")
    if words[end:]:
        notes.append(f"left out, since it is for a shell: {shlex.join(words[end:])}")
    at = next((at for at, word in enumerate(words[:end]) if _program(word)), None)
    if at is None:
        known = ", ".join(PROGRAMS)
        raise UsageError(f"the line calls none of {known}", hint="give the whole line between quotes")
    program, rest, before = _program(words[at]), words[at + 1 : end], words[:at]
    if program == "polygraphy" and rest[:1] != ["convert"]:
        raise UsageError(f"of Polygraphy, only 'polygraphy convert' is translated, not '{' '.join(rest[:1])}'")
    if before[-1:] == ["-m"]:
        before = before[:-2]
    if before:
        notes.append(f"left out in front of {program}: {shlex.join(before)}")
    if raw := [word for word in rest if _EXPANDED.search(word)]:
        notes.append(f"not expanded, since no shell reads the line: {shlex.join(raw)}")
    options = _options(program, deque(rest[program == "polygraphy" :]))
    return ToolLine(program, options, tuple(notes))


def _program(word: str) -> str:
    """Return the program that a word calls; empty for another word."""
    name = re.split(r"[\\/]", word)[-1].lstrip("!(").lower().removesuffix(".exe")
    return name if name in PROGRAMS and not word.startswith("-") else ""


def _split(line: str) -> list[str]:
    if len(line) > LONGEST_LINE:
        raise UsageError(f"the line has {plural(len(line), 'character')}; at most {LONGEST_LINE:,} are read")
    kept = _SUBSTITUTED.sub(lambda found: found[0].replace(" ", _SPACE), _CONTINUED.sub(" ", line))
    lexer = shlex.shlex(kept, posix=True)
    lexer.whitespace_split, lexer.commenters = True, ""
    if _WINDOWS.search(line):
        lexer.escape = ""
    try:
        return [word.replace(_SPACE, " ") for word in lexer]
    except ValueError as error:
        raise UsageError(f"the line cannot be divided into words: {str(error).lower()}") from None


def _options(program: str, words: deque[str]) -> tuple[GivenOption, ...]:
    table = {name: option for option in options_of(PROGRAMS[program]) for name in option.names}
    found, seen = list[GivenOption](), set[ToolOption]()
    while words:
        word = words.popleft()
        name, sign, value = word.partition("=")
        if not word.startswith("-") and MODEL_FILE in table:
            name, sign, value = MODEL_FILE, "=", word
        option = table.get(name) or _abbreviated(name, program, table)
        values = [value] if sign else _following(option.arity, words)
        text = " ".join([word, *([] if sign else values)])
        if not option.arity and values:
            if values[0].lower() in {"false", "0"}:
                continue
            values = []
        if option.arity == "=" and not "".join(values):
            raise UsageError(f"{name} has no value")
        if option in seen and option.arity in {"=", "=?"}:
            raise UsageError(f"{name} is given twice")
        seen.add(option)
        found.append(GivenOption(option, text, name, tuple(values)))
    return tuple(found)


def _abbreviated(name: str, program: str, table: Mapping[str, ToolOption]) -> ToolOption:
    """Return the only option that begins so, as argparse does for the tools in Python."""
    begun = {option for full, option in table.items() if full.startswith(name)}
    if PROGRAMS[program] != "trtexec" and name.startswith("--") and len(begun) == 1:
        return begun.pop()
    raise UsageError(f"{program} has no option '{name}'{suggestion(name, table)}")


def _following(arity: str, words: deque[str]) -> Sequence[str]:
    most = {"": 0, "=+": len(words)}.get(arity, 1)
    values = list[str]()
    while words and len(values) < most and not words[0].startswith("-"):
        values.append(words.popleft())
    return values


@cache
def _content() -> dict[str, dict[str, Any]]:
    return tomllib.loads(Path(__file__).with_name("options.toml").read_text(encoding="utf-8"))
