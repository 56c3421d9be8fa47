"""Put the path of a model into a hint, so that its commands can be pasted."""

import re
import shlex
from pathlib import Path

_PASTED = re.compile(r"`[^`]*`")
_MODEL = re.compile(r"\bMODEL\b")


def with_path(hint: str, path: Path) -> str:
    """Return a hint whose commands, which stand between backticks, have the path in place of the word MODEL."""
    quoted = shlex.quote(str(path))
    return _PASTED.sub(lambda command: _MODEL.sub(lambda _: quoted, command[0]), hint)
