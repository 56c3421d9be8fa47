"""Models as Python code has them: a path, a ModelProto or a Model."""

from pathlib import Path
from typing import TypeAlias

import onnx

from qdqtool.errors import ArgumentError, ModelError
from qdqtool.models.graph.io.tensors import is_external, iter_tensors
from qdqtool.models.graph.io.text import check_text
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


ModelLike: TypeAlias = str | Path | onnx.ModelProto | Model
"""A model: the path of an ``.onnx`` file, an ``onnx.ModelProto``, or what :func:`~qdqtool.load_model` returns."""


def as_source(model: ModelLike, name: str = "model") -> Path | Model:
    """Return a model as jobs take it: a path, or a model in memory. Nothing is read, and nothing copied.

    Args:
        model: The model.
        name: The name of the argument, for messages.

    Raises:
        ArgumentError: It is neither a path nor a model.
        ModelError: A ModelProto has no graph, names that are not UTF-8, or weights in files of an unknown folder.
    """
    if isinstance(model, Model):
        return model
    if isinstance(model, str | Path):
        return Path(model)
    if not isinstance(model, onnx.ModelProto):
        raise ArgumentError(
            f"{name} is of type {_type_name(model)}; legal: a path, an onnx.ModelProto, or a qdqtool.Model"
        )
    if not model.HasField("graph"):
        raise ModelError(f"{name} is a ModelProto without a graph")
    check_text(model)
    outside = next((tensor for tensor in iter_tensors(model) if is_external(tensor)), None)
    if outside is not None:
        raise ModelError(
            f"{name} is a ModelProto whose tensor '{outside.name}' is stored in a file, and its folder is not known",
            hint="pass the path of the model instead, or read the weights: "
            "onnx.external_data_helper.load_external_data_for_model(model, folder)",
        )
    return Model(model)


def _type_name(value: object) -> str:
    kind = type(value)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"
