"""The result type of transforms: the changed model, and a report of what was done."""

from dataclasses import dataclass
from typing import Generic, TypeVar

from qdqtool.models.graph.model import Model

R_co = TypeVar("R_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Transformed(Generic[R_co]):
    """A changed model, and what was done to it.

    A *transform* decides what to change in a model: it folds, converts, inserts or removes. Every transform returns
    this type, and these rules hold for all of them:

    - The given model is not changed. The result has a proto of its own, and both share the bytes of external and
      pending tensors. Inline data is copied with the proto, so jobs make large weights pending first, by ``spilled``.
    - Where there is nothing to do, the result may be the given model itself.
    - The report says what the caller cannot know from its own arguments. It is None where there is nothing of the kind.

    Four functions are no transforms and return a plain :class:`~qdqtool.models.graph.model.Model`, since they do
    exactly what their arguments say. Transforms are made of them: :meth:`Model.fork
    <qdqtool.models.graph.model.Model.fork>`, :func:`~qdqtool.models.graph.edits.surgeon.apply_edits`,
    :func:`~qdqtool.models.graph.io.metadata.with_metadata` and :func:`~qdqtool.models.graph.io.spill.spilled`.

    Attributes:
        model: The changed model.
        report: What was done; each transform documents its type.
    """

    model: Model
    report: R_co
