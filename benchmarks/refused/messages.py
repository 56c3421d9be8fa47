"""The general form of a message: what is the same for all models that are refused alike."""

import re

from qdqtool.engines.tensorrt.parser_errors import strip_noise

LONGEST = 240

_INFER = re.compile(r"Could not infer output types for operation:\s+\d+: (\w+): .*", re.DOTALL)
_RULES = (
    (_INFER, r"Could not infer output types for operation: \1"),
    (re.compile(r"Error during shape inference of .*? Error is: "), "Error during shape inference: "),
    (re.compile(r"\[[\w.]+:\d+: [\w~]+\]\s*"), ""),
    (re.compile(r"\b([a-z]\w*\.(?:cpp|h)):\d+"), r"\1"),
    (re.compile(r"'[^']*'(?!\w)"), "'…'"),
    (re.compile(r"\[[^\[\]]*\]"), "[…]"),
    (
        re.compile(
            r"^(I\w+Layer(?:/I\w+Layer)? )?(?!Assertion|Parameter|Network|Error|\w+\.(?:cpp|h):)\S+?:(?: \S+?:)? "
        ),
        r"\1NODE: ",
    ),
    (re.compile(r"\bnode_of_\S+|\b__my\w+"), "NODE"),
    (re.compile(r"(?<=[Cc]onstant )\(\S+\)"), "(NAME)"),
    (re.compile(r"(?<=Failed to import initializer: )(?!In )\S+"), "NAME"),
    (re.compile(r"-?\b\d[\w.]*"), "N"),
    (re.compile(r"\b(sm\w+)(, sm\w+)+"), "SM"),
    (re.compile(r"\bsm\d+\b"), "SM"),
)


def general(message: str) -> str:
    """Return a message without noise, with placeholders for names and numbers; empty without words."""
    text = strip_noise(message)
    for pattern, form in _RULES:
        text = pattern.sub(form, text)
    return text[:LONGEST]
