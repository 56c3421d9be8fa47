"""Words that messages and reports share, and the escaping of those that come from models."""

import unicodedata

_UNSAFE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def plural(count: int, noun: str) -> str:
    """Return ``count`` with its noun: ``1 weight``, ``2 weights``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def escape(text: str) -> str:
    """``text`` with every control, format and unassigned character spelled as a Python escape.

    A model may name a node with escape sequences, line breaks or direction marks; none of them may reach a terminal.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        char.encode("unicode_escape", "surrogatepass").decode() if is_unsafe(char) else char for char in text
    )


def is_unsafe(char: str) -> bool:
    """Whether a character may not reach a terminal: control, format, surrogate, private and unassigned characters."""
    return unicodedata.category(char) in _UNSAFE


def human_bytes(count: int) -> str:
    """A size in the largest unit that leaves at least one digit before the point: ``1.5 MB`` is 1,500,000 bytes."""
    size = float(count)
    for unit in ("bytes", "kB", "MB"):
        if size < 1000:
            return plural(count, "byte") if unit == "bytes" else f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} GB"
