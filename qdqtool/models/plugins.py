"""Plugin operators: operators that the TensorRT of the user has as plugins.

A plugin library is loaded by ``build`` alone. All other commands need only the names: rules do not call such an
operator unknown, and its nodes stay in float. A note in the metadata of a model has them, one a line, so that a
quantized model keeps what its user declared. ONNX has no schema for such an operator. The types and shapes of its
outputs come from a local function of the same name, or from a rule that is declared together with the name.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from qdqtool.errors import UsageError
from qdqtool.options import listed, option

if TYPE_CHECKING:
    import onnx

KEY = "qdqtool.plugin_operators"
"""Key of the note in the metadata of a model."""

_FORM = re.compile(r"(?P<domain>[^\s:=]*)::(?P<name>[^\s:=]+)(?:=same-as-input-(?P<source>\d{1,4}))?")
_HINT = "write DOMAIN::NAME, ::NAME for an operator without a domain, or DOMAIN::NAME=same-as-input-0"
_PAIR = frozenset({"QuantizeLinear", "DequantizeLinear"})

OperatorId = tuple[str, str]
"""Domain and name of an operator."""


@dataclass(frozen=True, slots=True)
class PluginOperator:
    """An operator that is declared as a plugin.

    Attributes:
        domain: Its domain in the model; empty for the default domain.
        name: Its name.
        source: Index of the input whose type and shape all outputs have; None if they have no such rule.
    """

    domain: str
    name: str
    source: int | None = None

    @property
    def id(self) -> OperatorId:
        """Domain and name."""
        return self.domain, self.name

    @property
    def title(self) -> str:
        """Domain and name, for messages."""
        return f"{self.domain}::{self.name}"

    def __str__(self) -> str:
        return self.title if self.source is None else f"{self.title}=same-as-input-{self.source}"


def parse_plugin_ops(words: Iterable[str], name: str = "plugin_ops") -> tuple[PluginOperator, ...]:
    """Parse ``DOMAIN::NAME`` and ``DOMAIN::NAME=same-as-input-N``.

    Raises:
        UsageError: A word has another form, two words name one operator, or a word names Q or DQ.
    """
    found: dict[OperatorId, PluginOperator] = {}
    for word in words:
        each = _parsed(word)
        if each is None:
            raise UsageError(f"{name} '{word}' does not name an operator with its domain", hint=_HINT)
        if each.name in _PAIR:
            raise UsageError(f"{name} '{word}': TensorRT has {each.name} itself, and it cannot be declared as a plugin")
        if each.id in found:
            raise UsageError(f"{name} names {each.title} twice")
        found[each.id] = each
    return tuple(found.values())


def _parsed(word: str) -> PluginOperator | None:
    parts = _FORM.fullmatch(word)
    if parts is None:
        return None
    domain = "" if parts["domain"] == "ai.onnx" else parts["domain"]
    return PluginOperator(domain, parts["name"], int(parts["source"]) if parts["source"] else None)


PLUGIN_OPS = replace(
    listed("DOMAIN::NAME"), read=parse_plugin_ops, take=lambda words: parse_plugin_ops(words, "plugin_ops")
)


def plugin_ops_option(section: str) -> tuple[PluginOperator, ...]:
    """Declare the option for plugin operators of one command, below the heading ``section`` of its help."""
    return option(
        (),
        "Declare an operator that your TensorRT has as a plugin: it is not called unknown, and stays float. With "
        "DOMAIN::NAME=same-as-input-0, its outputs have the type and shape of its first input. Repeatable.",
        PLUGIN_OPS,
        section=section,
    )


def plugin_operators(proto: "onnx.ModelProto") -> Mapping[OperatorId, PluginOperator]:
    """Return the plugin operators in the note of a model; lines of another form are left out."""
    note = next((entry.value for entry in proto.metadata_props if entry.key == KEY), "")
    return {each.id: each for each in map(_parsed, note.splitlines()) if each is not None and each.name not in _PAIR}


def stand_in_paths(proto: "onnx.ModelProto") -> frozenset[tuple[str, ...]]:
    """Return the scope paths of local functions that plugins replace in TensorRT."""
    return frozenset((each.title,) for each in plugin_operators(proto).values())
