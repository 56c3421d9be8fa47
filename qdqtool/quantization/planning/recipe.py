"""The options of quantization: what is quantized, and how the float model is prepared."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from qdqtool.errors import UsageError
from qdqtool.models import targets
from qdqtool.models.graph.model import Model
from qdqtool.models.transforms.specialize import require_fitting, specialize
from qdqtool.numerics.number_format import NumberFormat
from qdqtool.quantization.planning import modes
from qdqtool.quantization.planning.options import HighPrecision, RecipeOptions
from qdqtool.quantization.planning.placement import NodeId, Selection
from qdqtool.quantization.planning.target_fit import require_mode
from qdqtool.quantization.ranges import calibrators


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe(RecipeOptions):
    """A recipe that was checked, with the decisions that planning adds.

    Attributes:
        selection: The nodes to quantize.
        high_precision: The type of float nodes in the written model.
        fallback: Name of the secondary format, for layers that a search takes out of the format of the mode
            (:data:`qdqtool.quantization.planning.modes.FALLBACKS`); None if these layers become float.
        all_tensors: Whether a calibration measures every float tensor, also those that stay unquantized.
    """

    selection: Selection = field(default_factory=Selection)
    high_precision: HighPrecision = HighPrecision.FP32
    fallback: str | None = None
    all_tensors: bool = False

    def __post_init__(self) -> None:
        self.mode.block_size(self.block_size)
        calibrators.get(self.method)
        calibrators.check_percentile(self.method, self.percentile)
        require_mode(self.quantize_mode, self.target)
        if self.fallback is not None:
            require_mode(modes.fallback(self.quantize_mode, self.fallback), self.target)

    def require_ranges(self, problem: str, hint: str | None = None) -> None:
        """Check that the mode needs ranges of activations.

        Raises:
            UsageError: The mode quantizes weights only.
        """
        if not self.mode.needs_ranges:
            raise UsageError(f"quantize mode '{self.quantize_mode}' quantizes weights only: {problem}", hint=hint)

    def require_hardware(self, gpus: Iterable[int]) -> None:
        """Check that the target builds for every GPU, and that the GPU computes in the formats of the mode.

        Args:
            gpus: Compute capabilities, such as 86 for 8.6; the target defines the first one that supports each format.

        Raises:
            UsageError: The target does not build for a GPU, or a GPU lacks a format.
        """
        first = targets.get(self.target).min_compute_capability
        for gpu in gpus:
            targets.get(self.target).require_buildable(gpu, hint="`--target tensorrt` is for this GPU")
            for name in filter(None, (self.mode.activations, self.mode.weights)):
                if gpu < first.get(name, 0):
                    raise UsageError(
                        f"compute capability {targets.capability_name(gpu)} has no {name}, which quantize mode "
                        f"'{self.quantize_mode}' needs",
                        hint=f"`--quantize-mode int8`, or GPUs from `--sm {targets.capability_name(first[name])}` on",
                    )

    def goal(self, fmt: NumberFormat) -> calibrators.RangeGoal:
        """Return the settings with which thresholds of activations are chosen."""
        return calibrators.RangeGoal(format=fmt, percentile=self.percentile or calibrators.PERCENTILE)

    def parameters(self) -> dict[str, float]:
        """Return the parameters of the method, as a ranges file stores them."""
        return {"percentile": self.percentile or calibrators.PERCENTILE} if self.method == "percentile" else {}

    def in_fallback(self, others: frozenset[NodeId]) -> "Recipe":
        """Return the recipe that plans layers in the secondary format, and leaves all other nodes in float."""
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
    require_fitting(source, recipe.input_shapes)
    return specialize(source, recipe.input_shapes, recipe.input_values).model
