"""A model in memory: its ModelProto without external weights, and the sources of tensor bytes."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Generic, TypeVar

import onnx

from qdqtool.models.payload import Payload

PENDING_LOCATION = "qdqtool:pending"
"""``location`` of a tensor whose bytes are computed when the model is saved; its ``key`` names the payload."""


@dataclass(slots=True)
class Model:
    """An ONNX model whose external data stays on disk.

    Attributes:
        proto: The model as it was read. External tensors keep their ``external_data`` entries; tensors made by edits
            may have the location :data:`PENDING_LOCATION` and a ``key``.
        path: The file of the model; None for models made in memory. External locations are relative to its folder.
        payloads: Bytes of pending tensors by key.
        stored_outside: Whether the file of the model keeps weights in external data.
        missing_data: Locations of external data that does not exist. Empty if the model was loaded with its data.
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
        """Return the same model (or another proto) with its own payloads, so that a job can add pending tensors."""
        return replace(self, proto=proto or self.proto, payloads=dict(self.payloads))

    def default_opset(self) -> int:
        """Return the imported version of the default ONNX domain; 1 if it is not imported."""
        return opset_version(self.proto, "")


def opset_version(proto: onnx.ModelProto | onnx.FunctionProto, domain: str) -> int:
    """Return the version of ``domain`` that a model or local function imports; 1 if it imports none."""
    wanted = {"", "ai.onnx"} if domain in {"", "ai.onnx"} else {domain}
    return next((entry.version for entry in proto.opset_import if entry.domain in wanted), 1)


R_co = TypeVar("R_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Transformed(Generic[R_co]):
    """A changed model, and what was done to it.

    A *transform* decides what to change in a model: it folds, converts, inserts or removes. Every transform returns
    this type, and these rules hold for all of them:

    - The given model is not changed. The result has its own proto; both share the bytes of external and pending
      tensors. Inline data is copied with the proto, so jobs first make large weights pending with ``offloaded``.
    - If there is nothing to do, the result may be the given model itself.
    - The report has what the caller cannot know from the arguments. It is None if there is no such information.

    Four functions are not transforms and return a plain :class:`~qdqtool.models.graph.model.Model`, because they do
    exactly what their arguments say. Transforms use them: :meth:`Model.fork
    <qdqtool.models.graph.model.Model.fork>`, :func:`~qdqtool.models.graph.edits.surgeon.apply_edits`,
    :func:`~qdqtool.models.graph.io.metadata.with_metadata` and :func:`~qdqtool.models.graph.io.offload.offloaded`.

    Attributes:
        model: The changed model.
        report: What was changed; each transform documents the type.
    """

    model: Model
    report: R_co
