"""Reports on reading and writing a model, as data: digests, sizes, nodes with reasons, operators for a picture."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from qdqtool.results import Report

if TYPE_CHECKING:
    from qdqtool.models.graph.model import Model


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeReason:
    """A node, and the reason why something does not apply to it, for example why it is not quantized.

    Attributes:
        node: Label of the node.
        op_type: Operator type.
        graph: Scope of the node; empty for the main graph.
        reason: The reason, in words.
    """

    node: str
    op_type: str
    graph: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFile:
    """A file of external data.

    Attributes:
        name: Name of the file.
        bytes: Size of the file.
        sha256: SHA-256 in hexadecimal; None if it was not computed: the file is large, and nothing else reads it.
    """

    name: str
    bytes: int
    sha256: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFile:
    """The file of a model as it was when it was read.

    Attributes:
        bytes: Size of the file, without external data.
        sha256: SHA-256 in hexadecimal. It covers the weights in the file, but only the file names of external data.
        external_data: The files of external data that exist.
    """

    bytes: int
    sha256: str
    external_data: tuple[DataFile, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """Total size of a model file and its data file, before and after.

    Attributes:
        before: Bytes of the model that was read.
        after: Bytes of the model that was written.
    """

    before: int
    after: int


@dataclass(frozen=True, slots=True)
class OutlineNode:
    """An operator of the main graph.

    Attributes:
        name: Label of the node.
        op_type: Operator type.
        inputs: For each input, the number in the outline of the operator that makes it, or -1 for an input of the
            model. Constants and inputs that only the subgraphs of an If or Loop read are left out.
        formats: For each of these inputs, the format of its Q/DQ pair; empty for an unquantized input.
        weights: The format of the first constant that a DQ makes; empty if there is none.
    """

    name: str
    op_type: str
    inputs: tuple[int, ...]
    formats: tuple[str, ...]
    weights: str


class WrittenModelReport(Report):
    """The base class for reports of jobs that write a model."""

    # Not a dataclass field: the JSON report does not contain the model.
    __slots__ = ("_output_model",)

    @property
    def output_model(self) -> Model | None:
        """The model, if no output file was named; its ``proto`` is an ``onnx.ModelProto`` with all weights inside."""
        return getattr(self, "_output_model", None)

    def keep(self, model: Model) -> None:
        """Keep the resulting model."""
        object.__setattr__(self, "_output_model", model)
