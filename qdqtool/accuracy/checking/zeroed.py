"""Tensors that a measurement shows to be degenerate: nearly all of their values become 0."""

from qdqtool.accuracy.checking.accuracy import Accuracy, ZeroedTensor
from qdqtool.quantization.planning.degenerate import DegenerateTensor


def with_measured(known: tuple[DegenerateTensor, ...], cost: Accuracy | None) -> tuple[DegenerateTensor, ...]:
    """Return degenerate tensors and those that only a measurement shows: without counts only the maximum is known.

    Args:
        known: Those that were found when the scales were derived; they are not repeated.
        cost: The measurement; None where nothing was measured.
    """
    named = {(each.tensor, each.graph) for each in known}
    found = (_measured(each, cost.samples) for each in cost.zeroed) if cost is not None else ()
    return (*known, *(each for each in found if (each.tensor, each.graph) not in named))


def _measured(zeroed: ZeroedTensor, samples: int) -> DegenerateTensor:
    return DegenerateTensor(
        tensor=zeroed.tensor,
        graph=zeroed.graph,
        kind="activation",
        condition="strays",
        scales=1,
        of=1,
        scale=zeroed.scale,
        action=(
            f"NOT clipped: {zeroed.share:.4%} of the values that are not 0 become 0 on {samples} samples; look at it "
            "with method auto, which counts values and can clip strays, or exclude what reads it"
        ),
    )
