"""The data or ranges from which a quantized model was made, for reports."""

from dataclasses import dataclass
from typing import Final

from qdqtool.quantization.planning.given_ranges import GivenReport
from qdqtool.quantization.planning.recipe import Recipe
from qdqtool.quantization.ranges import calibrators
from qdqtool.quantization.ranges.method_choice import MethodTrial, chosen_method
from qdqtool.quantization.ranges.types import CalibrationRecord
from qdqtool.samples import DataDescription
from qdqtool.samples.read_options import Preprocessing


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationUsed:
    """The origin of the ranges; in weight-only modes, of the data.

    Attributes:
        source: The data, ``random``, or the ranges file.
        method: Id of the calibrator. In weight-only modes ``gptq`` where codes were chosen with data, else ``nearest``.
        samples: How many samples were run. In weight-only modes, how many may have chosen something.
        random: Whether they were random.
        seed: The seed of random samples.
        forced: Whether the ranges were used only because the user insisted.
        forced_for: What they do not match: ``model``, ``data`` (that of the measurement), ``samples`` (their number).
        given: The use that was made of a range file of another tool; None for any other source.
        repeated: How many samples were equal to an earlier one; 0 where the samples were not read.
        held_back: In weight-only modes, how many samples of the source chose nothing and only measured.
        from_file: Whether ``source`` is a ranges file that `calibrate` wrote, and ``samples`` were run then.
        chosen: Id of the calibrator that ``auto`` chose for the whole model by its outputs; ``auto`` where it chose for
            each tensor by itself, and empty for other methods.
        method_trial: The effect of the methods that were tried; None where none was.
        preprocessing: How files became samples; None for samples that were arrays.
    """

    source: str
    method: str
    samples: int
    random: bool
    seed: int | None
    forced: bool = False
    forced_for: tuple[str, ...] = ()
    given: GivenReport | None = None
    repeated: int = 0
    held_back: int = 0
    from_file: bool = False
    chosen: str = ""
    method_trial: MethodTrial | None = None
    preprocessing: Preprocessing | None = None


def used_ranges(
    source: str, record: CalibrationRecord, recipe: Recipe, forced: tuple[str, ...] = ()
) -> CalibrationUsed:
    """Return what a report says about ranges.

    Args:
        source: Their origin, in words.
        record: The calibration that found them.
        recipe: How they become scales.
        forced: What they do not match: ``model``, ``data``, ``samples``.
    """
    return CalibrationUsed(
        source=source,
        method=recipe.method,
        samples=record.samples,
        random=record.random,
        seed=record.seed,
        chosen=chosen_method(record, recipe.method) if recipe.method == calibrators.DEFAULT else "",
        forced=bool(forced),
        forced_for=forced,
        preprocessing=record.preprocessing,
    )


GPTQ: Final = "gptq"
"""The codes of weights were chosen with data."""


NEAREST: Final = "nearest"
"""The codes are those nearest to the weights; data influenced at most the preparation of the model."""


def data_of_weights(data: DataDescription, choosing: int, *, rounded: int) -> CalibrationUsed:
    """Return what a report says about the data of a weight-only mode.

    Args:
        data: The data.
        choosing: How many of its samples may have chosen something.
        rounded: Number of weights whose codes they chose.
    """
    return CalibrationUsed(
        source=data.source,
        method=GPTQ if rounded else NEAREST,
        samples=choosing,
        held_back=data.samples - choosing,
        random=data.seed is not None,
        seed=data.seed,
        repeated=data.repeated,
        preprocessing=data.preprocessing,
    )
