"""Reports of jobs that write a model, which may be a model in memory instead of a file."""

from qdqtool.models.graph.model import Model
from qdqtool.results import Report


class ModelReport(Report):
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
