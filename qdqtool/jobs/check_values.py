"""Fix the values of inputs in a model that is checked and in its baseline, so that both take the same inputs."""

from dataclasses import replace

from qdqtool.errors import UsageError
from qdqtool.models.graph.model import Model
from qdqtool.models.transforms.specialize_values import fix_inputs, fix_values, fixed_values
from qdqtool.registry import suggestion
from qdqtool.samples.input_shapes import Shapes, Values
from qdqtool.samples.request import DataRequest
from qdqtool.samples.signature import input_specs


def with_values(model: Model, baseline: Model | None, request: DataRequest) -> tuple[Model, Model | None, DataRequest]:
    """Return both models with inputs stored as constants, and the data that they take then.

    The inputs are those that the user names, and in the baseline those too that quantizing stored as constants, which
    the metadata of the model say.

    Raises:
        UsageError: Neither model has such an input, or a value does not fit it.
    """
    noted = fixed_values(model)
    known = [*_names(model), *([] if baseline is None else _names(baseline)), *noted]
    for name in request.input_values:
        if name not in known:
            listed = ", ".join(dict.fromkeys(known)) or "none"
            raise UsageError(
                f"--input-values names '{name}', which is no input; the inputs are {listed}{suggestion(name, known)}"
            )
    values = {**{name: tuple(array.reshape(-1).tolist()) for name, array in noted.items()}, **request.input_values}
    shapes = {**{name: array.shape for name, array in noted.items()}, **request.input_shapes}
    rest = {name: shape for name, shape in request.input_shapes.items() if name not in values}
    return (
        _fixed(model, request.input_values, shapes),
        None if baseline is None else _fixed(baseline, values, shapes),
        replace(request, input_shapes=rest),
    )


def _names(model: Model) -> list[str]:
    return [spec.name for spec in input_specs(model)]


def _fixed(model: Model, values: Values, shapes: Shapes) -> Model:
    names, stored = _names(model), fixed_values(model)
    shaped = fix_inputs(model, {name: shapes[name] for name in values if name in names and name in shapes}).model
    return fix_values(shaped, {name: given for name, given in values.items() if name in names or name in stored}).model
