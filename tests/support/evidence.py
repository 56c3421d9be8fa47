"""The evidence of a check whose outputs are given instead of computed, so that limits are met to the last bit."""

from collections.abc import Mapping, Sequence
from types import SimpleNamespace

import numpy as np
import onnx

from qdqtool.accuracy.checking.limits import Gates
from qdqtool.accuracy.checking.outputs import output_checks
from qdqtool.accuracy.checking.reference_run import Evidence
from qdqtool.accuracy.checking.sample_errors import SampleOrigin
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.model import Model

Outputs = Mapping[str, np.ndarray]


def evidence_of(
    model: onnx.ModelProto,
    samples: Sequence[tuple[Outputs, Outputs | None]],
    *,
    gates: Gates | None = None,
    is_random: bool = False,
    nonfinite_origin: str = "",
) -> Evidence:
    """Evidence of outputs alone, as gates read it.

    Args:
        model: Declares the outputs, and says what makes them. It is its own baseline.
        samples: For each sample the outputs of the model, and those of the baseline; None for a check without one.
        gates: The limits of the user.
        is_random: Whether the inputs were random.
        nonfinite_origin: Where the first NaN came from, in words.
    """
    index = ModelIndex.of(Model(model))
    baseline = index if any(expected is not None for _, expected in samples) else None
    checks = output_checks(index, baseline)
    for number, (found, expected) in enumerate(samples):
        for check in checks:
            name = check.value.name
            check.add(found[name], expected[name] if expected is not None else None, SampleOrigin(number))
    job = SimpleNamespace(
        index=index,
        baseline=baseline,
        outputs=checks,
        checks={},
        gates=gates or Gates(),
        nonfinite_origin=nonfinite_origin,
        sinks=SimpleNamespace(saved=None, metric=None),
        boundaries=[],
        lonely=[],
    )
    return Evidence.of(job, is_random=is_random)
