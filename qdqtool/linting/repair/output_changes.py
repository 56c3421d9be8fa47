"""Measure how much a change of a model changes its outputs, and the quantization noise before and after."""

from collections.abc import Sequence

from qdqtool.errors import QdqError
from qdqtool.linting.repair.proof import Prover, Run, Sample, equal_bits, reason
from qdqtool.linting.repair.report import OutputChange
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.model import Model
from qdqtool.models.running.accumulated_error import AccumulatedError, max_steps
from qdqtool.models.transforms.strip import strip_from
from qdqtool.numerics.dtypes import Array


def output_changes(original: Model, before: Run, after: Run, prover: Prover) -> tuple[OutputChange, ...]:
    """Return how much each output changed, and its noise relative to the model without Q/DQ, before and after."""
    if before.failure or after.failure:
        return ()
    twin = _twin_run(original, prover)
    scales = _output_scales(original)
    return tuple(
        _output_change(name, before.samples, after.samples, twin, scales.get(name))
        for name, array in before.samples[0].items()
        # No metrics for strings (kind "O"), nor for bfloat16 and float8 (kind "V").
        if array.dtype.kind in "biuf"
    )


def _twin_run(original: Model, prover: Prover) -> Run:
    try:
        twin = strip_from(original).model
    except QdqError as error:
        return Run(failure=reason(error))
    return prover.run(twin)


def _output_change(
    name: str, before: Sequence[Sample], after: Sequence[Sample], twin: Run, scale: Array | None
) -> OutputChange:
    moved, noise_before, noise_after = AccumulatedError(), AccumulatedError(), AccumulatedError()
    steps: float | None = None
    for index, (first, second) in enumerate(zip(before, after, strict=True)):
        moved.add(first[name], second[name])
        # If the number of elements depends on the data, as for a Compress, the fix may change the shape.
        if first[name].shape != second[name].shape:
            continue
        if twin.samples:
            noise_before.add(twin.samples[index][name], first[name])
            noise_after.add(twin.samples[index][name], second[name])
        if scale is not None:
            steps = max(steps or 0.0, max_steps(first[name], second[name], scale))
    return OutputChange(
        name=name,
        exact=all(equal_bits(first[name], second[name]) for first, second in zip(before, after, strict=True)),
        equal=moved.exact,
        other_shapes=moved.other_shapes,
        max_abs=moved.max_abs,
        max_steps=steps,
        sqnr_db=moved.sqnr_db,
        before_db=noise_before.sqnr_db,
        after_db=noise_after.sqnr_db,
    )


def _output_scales(model: Model) -> dict[str, Array]:
    """Return the scale of every output that a DQ with one constant scale produces."""
    index = ModelIndex.of(model)
    main = index.view.main
    found: dict[str, Array] = {}
    for name in main.output_names():
        maker = index.qdq.dequantizer_of(main.values.get(name))
        scale = index.constants.array(maker.scale) if maker is not None and maker.scale is not None else None
        if scale is not None and scale.size == 1:
            found[name] = scale.reshape(())
    return found
