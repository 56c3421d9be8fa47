"""What TensorRT's parser said of a model, as the linter takes it in."""

from dataclasses import dataclass
from typing import Literal

from qdqtool.linting.rules.support.parser_fault import ParserFault
from qdqtool.models.graph.index.view import NodeView
from qdqtool.models.graph.scope import display

ParserStatus = Literal["asked", "absent", "off", "timed out"]

PARSER_TARGET = "tensorrt-rtx"
"""The target whose parser runs on any machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParserAnswer:
    """The answer to one question about one model.

    Attributes:
        status: ``asked``; ``absent`` where the package is not installed; ``off`` where it was not to be asked;
            ``timed out`` where it gave no answer in time.
        note: The version that was asked, or why it was not; empty where that is plain.
        messages: Its own words, without noise.
        faults: What it has against the model.
    """

    status: ParserStatus
    note: str = ""
    messages: tuple[str, ...] = ()
    faults: tuple[ParserFault, ...] = ()


def is_explained(node: NodeView | None, reported: set[tuple[str, str | None]]) -> bool:
    """Return whether findings that were reported before explain why the parser refuses a node.

    The parser reports one fault at a time, and a wrong type or shape often at the node that reads the tensor.

    Args:
        node: The node; None where the parser names none.
        reported: Scope and label of the nodes at which a rule says that TensorRT refuses the model.
    """
    if node is None:
        return bool(reported)
    around = [node, *_producers(node), *_readers(node)]
    return any((display(each.scope.path), each.label) in reported for each in around)


def _producers(node: NodeView) -> list[NodeView]:
    inputs = (node.input(index) for index in range(len(node.proto.input)))
    return [value.producer for value in inputs if value is not None and value.producer is not None]


def _readers(node: NodeView) -> list[NodeView]:
    outputs = (node.output(index) for index in range(len(node.proto.output)))
    return [use.node for value in outputs if value is not None for use in value.uses]
