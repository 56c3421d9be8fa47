"""What reading and writing a model tells, as data: digests, sizes, nodes with reasons, operators for a picture."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from qdqtool.results import Report

if TYPE_CHECKING:
    from qdqtool.models.graph.model import Model


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeReason:
    """A node, and the reason why something does not apply to it, such as why it stays in float.

    Attributes:
        node: Its label.
        op_type: Its operator.
        graph: Its scope; empty for the main graph.
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
        name: Its name.
        bytes: Its size.
        sha256: Its SHA-256 in hexadecimal; None where it was not computed, since the data is large and is not read.
    """

    name: str
    bytes: int
    sha256: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFile:
    """The file of a model as it was when it was read.

    Attributes:
        bytes: Its size, without external data.
        sha256: Its SHA-256 in hexadecimal. It covers the weights in the file, and of external data the names only.
        external_data: Its files of external data that are there.
    """

    bytes: int
    sha256: str
    external_data: tuple[DataFile, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """Bytes of model and data file together, before and after.

    Attributes:
        before: Bytes of the model that was read.
        after: Bytes of the model that was written.
    """

    before: int
    after: int


@dataclass(frozen=True, slots=True)
class OutlineNode:
    """One operator of the main graph.

    Attributes:
        name: Its label.
        op_type: Its operator.
        inputs: The number in the outline of the operator that makes each of its inputs, -1 for an input of the model.
            Constants are left out, and so is what the body of an If or Loop reads.
        formats: For each of these inputs the format of its Q/DQ pair; empty for an input in float.
        weights: The format of its first constant behind a DQ; empty where it has none.
    """

    name: str
    op_type: str
    inputs: tuple[int, ...]
    formats: tuple[str, ...]
    weights: str


class WrittenModelReport(Report):
    """The base of the report of a job that writes a model."""

    # No field of the dataclass: the JSON report has none, since no file has one.
    __slots__ = ("_output_model",)

    @property
    def output_model(self) -> Model | None:
        """The model where no output was named; its ``proto`` is an ``onnx.ModelProto`` with all weights inside."""
        return getattr(self, "_output_model", None)

    def keep(self, model: Model) -> None:
        """Keep the model that was made."""
        object.__setattr__(self, "_output_model", model)
