"""A model in memory: its ModelProto without external weights, and the sources of tensor bytes."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Generic, TypeVar

import onnx

from qdqtool.models.payload import Payload

PENDING_LOCATION = "qdqtool:pending"
"""``location`` of a tensor whose bytes are made when the model is saved; its ``key`` names the payload."""


@dataclass(slots=True)
class Model:
    """An ONNX model whose external data stays on disk.

    Attributes:
        proto: The model as read. External tensors keep their ``external_data`` entries; tensors that an edit made
            may have the location :data:`PENDING_LOCATION` and a ``key``.
        path: The file it was read from; None for models made in memory. External locations are relative to its folder.
        payloads: Bytes of pending tensors by key.
        stored_outside: Whether the file it was read from keeps weights in external data.
        missing_data: Locations of external data that is not there. Empty, except where a model is only looked at.
    """

    proto: onnx.ModelProto
    path: Path | None = None
    payloads: dict[str, Payload] = field(default_factory=dict)
    stored_outside: bool = False
    missing_data: frozenset[str] = frozenset()

    @property
    def folder(self) -> Path:
        """The folder that external locations are relative to."""
        return self.path.parent if self.path is not None else Path.cwd()

    def fork(self, proto: onnx.ModelProto | None = None) -> "Model":
        """The same model, or another proto of it, with payloads of its own: pending tensors are added for one job."""
        return replace(self, proto=proto or self.proto, payloads=dict(self.payloads))

    def default_opset(self) -> int:
        """The imported version of the default ONNX domain; 1 when it is not imported."""
        return opset_version(self.proto, "")


def opset_version(proto: onnx.ModelProto | onnx.FunctionProto, domain: str) -> int:
    """The version of ``domain`` that a model or local function imports; 1 when it imports none."""
    wanted = {"", "ai.onnx"} if domain in {"", "ai.onnx"} else {domain}
    return next((entry.version for entry in proto.opset_import if entry.domain in wanted), 1)


R_co = TypeVar("R_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Transformed(Generic[R_co]):
    """A changed model, and what was done to it.

    A *transform* decides what to change in a model: it folds, converts, inserts or removes. Every transform returns
    this type, and these rules hold for all of them:

    - The given model is not changed. The result has a proto of its own, and both share the bytes of external and
      pending tensors. Inline data is copied with the proto, so jobs make large weights pending first, by ``offloaded``.
    - Where there is nothing to do, the result may be the given model itself.
    - The report says what the caller cannot know from its own arguments. It is None where there is nothing of the kind.

    Four functions are no transforms and return a plain :class:`~qdqtool.models.graph.model.Model`, since they do
    exactly what their arguments say. Transforms are made of them: :meth:`Model.fork
    <qdqtool.models.graph.model.Model.fork>`, :func:`~qdqtool.models.graph.edits.surgeon.apply_edits`,
    :func:`~qdqtool.models.graph.io.metadata.with_metadata` and :func:`~qdqtool.models.graph.io.offload.offloaded`.

    Attributes:
        model: The changed model.
        report: What was done; each transform documents its type.
    """

    model: Model
    report: R_co
