"""The inputs of a checked model and its baseline: fixed values, and samples for both."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from qdqtool.accuracy.checking.report import CheckReport
from qdqtool.errors import UsageError
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.model import Model
from qdqtool.models.transforms.specialize_values import fix_inputs, fix_values, fixed_values
from qdqtool.registry import suggestion
from qdqtool.samples.calibration_note import read_note
from qdqtool.samples.feeds import Feeds
from qdqtool.samples.input_shapes import Shapes, Values
from qdqtool.samples.noise import random_feeds
from qdqtool.samples.preprocessing import Preprocessing
from qdqtool.samples.request import DataRequest, FileData
from qdqtool.samples.signature import InputSpec, input_specs, stored_specs, with_shapes


def with_values(model: Model, baseline: Model | None, request: DataRequest) -> tuple[Model, Model | None, DataRequest]:
    """Return both models with some inputs stored as constants, and the data for the remaining inputs.

    These are the inputs that the user names. In the baseline, they also include inputs that quantization stored as
    constants, according to the metadata of the model.

    Raises:
        UsageError: An input that the user names is in neither model, or a value does not fit its input.
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


def feeds_of(index: ModelIndex, baseline: ModelIndex | None, request: DataRequest, renamed: Mapping[str, str]) -> Feeds:
    """Return the samples for a model and its baseline.

    Args:
        index: The index of the model.
        baseline: The index of the baseline; None without a baseline.
        request: The data.
        renamed: The name of each input of the model, by its name in the baseline.

    Raises:
        UsageError: The data does not fit the model, or the baseline has other inputs.
    """
    specs = with_shapes(input_specs(index.model), request.input_shapes)
    if baseline is not None:
        _check_same_inputs(specs, input_specs(baseline.view.model))
    if request.samples is not None and request.samples < 1:
        raise UsageError(f"--samples is {request.samples}; it must be at least 1")
    if request.path is not None:
        # If the model has lost its note, the note of the baseline, whose inputs have the same fixed values, gives them.
        models = [index.model, *([] if baseline is None else [baseline.view.model])]
        stored = {spec.name: spec for model in models for spec in stored_specs(model)}
        specs = (*specs, *stored.values())
        data = FileData(
            path=request.path, samples=request.samples, allow_constant=request.allow_constant, options=request.options
        )
        try:
            return data.feeds(specs)
        except UsageError:
            if not renamed:
                raise
            # The data may be for the baseline, with the names of its inputs.
            own = {name: theirs for theirs, name in renamed.items()}
            called = [replace(spec, name=own.get(spec.name, spec.name)) for spec in specs]
            return data.feeds(called).renamed(renamed)
    return random_feeds(index, specs, seed=request.seed, samples=request.samples)


def _takes_the_same(left: InputSpec, right: InputSpec) -> bool:
    if left.dtype != right.dtype or left.shape is None or right.shape is None:
        return left.dtype == right.dtype
    return len(left.shape) == len(right.shape) and all(
        one == other or not isinstance(one, int) or not isinstance(other, int)
        for one, other in zip(left.shape, right.shape, strict=True)
    )


def _check_same_inputs(specs: tuple[InputSpec, ...], others: tuple[InputSpec, ...]) -> None:
    mine, theirs = ({spec.name: spec for spec in each} for each in (specs, others))
    if set(mine) == set(theirs) and all(_takes_the_same(mine[name], theirs[name]) for name in mine):
        return
    hint = "the baseline must be the float model that was quantized"
    lost = next((name for name in theirs if name not in mine), None)
    if lost is not None:
        hint += f"; --input-values gives the value of '{lost}' if it became a constant"
    raise UsageError(
        f"model and baseline take different inputs: {', '.join(map(str, specs))} against {', '.join(map(str, others))}",
        hint=hint,
    )


def recorded_preprocessing(models: tuple[Model, Model | None]) -> Preprocessing | None:
    """Return how the calibration data of the model, else of the baseline, was preprocessed; None if not recorded."""
    notes = (read_note(model) for model in models if model is not None)
    return next((note.preprocessing for note in notes if note is not None and note.preprocessing is not None), None)


def other_preprocessing(recorded: Preprocessing | None, report: CheckReport) -> Iterator[str]:
    """Yield a warning if files were preprocessed differently than in the calibration of the model."""
    used = report.data.preprocessing
    if recorded is not None and used is not None and used != recorded:
        yield f"the model was calibrated on other preprocessing: {recorded.kind}: {recorded}"
