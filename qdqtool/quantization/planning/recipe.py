"""The options of quantization: what is quantized, and how the float model is prepared."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from qdqtool.errors import ArgumentError, UsageError
from qdqtool.models import targets
from qdqtool.models.graph.model import Model
from qdqtool.models.transforms.specialize import specialize
from qdqtool.numerics.number_format import NumberFormat
from qdqtool.quantization.planning import modes
from qdqtool.quantization.planning.existing import Existing
from qdqtool.quantization.planning.high_precision import HighPrecision
from qdqtool.quantization.planning.placement import NodeId, Selection
from qdqtool.quantization.planning.target_fit import require_mode
from qdqtool.quantization.ranges import calibrators


@dataclass(frozen=True, slots=True, kw_only=True)
class Preparation:
    """Options of preparing a float model.

    Attributes:
        equalize: Whether the ranges of channels are equalised between layers.
        smoothquant: Alpha from 0 to 1 for SmoothQuant behind normalizations; ``auto`` to search the best for each
            normalization that has outlier channels; None for no SmoothQuant.
        float_layer: Whether a small layer stays in float that alone makes most of the noise on calibration samples.
        awq: Whether the input channels of weights of few bits are scaled by AWQ, where data shows that products gain.
        bias_correction: Whether biases are corrected after quantizing, so that the mean of each output channel is kept.
    """

    equalize: bool = True
    smoothquant: float | Literal["auto"] | None = "auto"
    bias_correction: bool = True
    awq: bool = True
    float_layer: bool = True

    def __post_init__(self) -> None:
        alpha = self.smoothquant
        if not (alpha is None or alpha == "auto" or (isinstance(alpha, float) and 0 <= alpha <= 1)):
            raise ArgumentError(f"smoothquant is {alpha!r}; legal: 'auto', or a number from 0 to 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """What to quantize, and how to derive scales from ranges.

    Attributes:
        quantize_mode: Id of a mode (:mod:`qdqtool.quantization.planning.modes`).
        block_size: Elements that share a scale, in modes with blocks; None for the mode's default.
        method: Id of a calibrator (:mod:`qdqtool.quantization.ranges.calibrators`).
        percentile: For the method ``percentile``: how many of a hundred values are not clipped; None for the default.
        target: Id of a target (:mod:`qdqtool.models.targets`).
        selection: Which nodes.
        input_shapes: Extents that the user fixes, by input name.
        input_values: Values that the user fixes, likewise: such an input becomes a constant.
        preparation: How the float model is prepared.
        high_precision: The type of float nodes in the written model.
        existing: What becomes of Q/DQ nodes that the model has already.
        fallback: Name of the format of the layers that a search takes out of the mode's format
            (:data:`qdqtool.quantization.planning.modes.FALLBACKS`); None where they become float.
    """

    quantize_mode: str = modes.DEFAULT
    block_size: int | None = None
    method: str = calibrators.DEFAULT
    percentile: float | None = None
    target: str = targets.DEFAULT
    selection: Selection = field(default_factory=Selection)
    input_shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    input_values: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    preparation: Preparation = field(default_factory=Preparation)
    high_precision: HighPrecision = HighPrecision.FP32
    existing: Existing = Existing.REFUSE
    fallback: str | None = None

    def __post_init__(self) -> None:
        self.mode.block_size(self.block_size)
        calibrators.get(self.method)
        calibrators.check_percentile(self.method, self.percentile)
        require_mode(self.quantize_mode, self.target)
        if self.fallback is not None:
            require_mode(modes.fallback(self.quantize_mode, self.fallback), self.target)

    def require_ranges(self, problem: str, hint: str | None = None) -> None:
        """Raise unless the mode needs ranges of activations.

        Args:
            problem: What is impossible without ranges, for the message.
            hint: What to do instead.

        Raises:
            UsageError: It quantizes weights only.
        """
        if not self.mode.needs_ranges:
            raise UsageError(f"quantize mode '{self.quantize_mode}' quantizes weights only: {problem}", hint=hint)

    def goal(self, fmt: NumberFormat) -> calibrators.RangeGoal:
        """Return the goal for which thresholds of activations are chosen."""
        return calibrators.RangeGoal(format=fmt, percentile=self.percentile or calibrators.PERCENTILE)

    def parameters(self) -> dict[str, float]:
        """Return the parameters of the method, as a ranges file stores them."""
        return {"percentile": self.percentile or calibrators.PERCENTILE} if self.method == "percentile" else {}

    def in_fallback(self, others: frozenset[NodeId]) -> "Recipe":
        """Return the recipe that plans layers in the fallback format, and leaves other nodes alone."""
        assert self.fallback is not None
        mode = modes.fallback(self.quantize_mode, self.fallback)
        selection = replace(self.selection, float_nodes=others, fallback_nodes=frozenset())
        return replace(self, quantize_mode=mode, block_size=None, fallback=None, selection=selection)

    @property
    def mode(self) -> modes.Mode:
        """The mode that :attr:`quantize_mode` names."""
        return modes.get(self.quantize_mode)


def with_fixed_inputs(source: Model, recipe: Recipe) -> Model:
    """Return the model with the input shapes and values that the user fixed."""
    if not (recipe.input_shapes or recipe.input_values):
        return source
    return specialize(source, recipe.input_shapes, recipe.input_values).model
