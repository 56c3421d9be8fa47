"""The options of a recipe: what is quantized, by which method, and how the float model is prepared."""

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from qdqtool.errors import ArgumentError
from qdqtool.models.options import HalfType
from qdqtool.models.plugins import PluginOperator, plugin_ops_option
from qdqtool.options import SWITCH, Kind, choice, integer, listed, number, option, text
from qdqtool.quantization.planning import modes
from qdqtool.samples.options import SEVERAL, SHAPES, VALUES

WHAT = "What is quantized"
HOW = "How"
"""Headings of the help."""


class Existing(enum.Enum):
    """How the Q/DQ of a model are handled: the model is refused, they are kept, or they are removed and replaced."""

    REFUSE = "refuse"
    KEEP = "keep"
    REPLACE = "replace"


class HighPrecision(enum.Enum):
    """The type of the float nodes.

    ``fp32`` keeps their type; ``fp16`` and ``bf16`` are half precision for all nodes whose values fit; ``auto`` is
    ``fp16`` or ``fp32``, as target and model decide (:func:`qdqtool.quantization.planning.high_precision.resolved`).
    """

    AUTO = "auto"
    FP32 = "fp32"
    FP16 = "fp16"
    BF16 = "bf16"

    @property
    def half(self) -> HalfType | None:
        """The half-precision type; None if float nodes keep their type."""
        return HalfType(self.value) if self in {HighPrecision.FP16, HighPrecision.BF16} else None


def _read_alpha(word: str, name: str) -> float | str | None:
    try:
        return _take_alpha(word if word in {"auto", "off"} else float(word))
    except ValueError:
        raise ArgumentError(f"{name} is {word!r}; legal: auto, off, or a number from 0 to 1") from None


def _take_alpha(value: float | str) -> float | str | None:
    return None if value == "off" else value


_ALPHA = Kind(
    form="text", keyword='float | Literal["auto", "off"]', metavar="auto|off|ALPHA", read=_read_alpha, take=_take_alpha
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Preparation:
    """Options of preparing a float model.

    Attributes:
        equalize: Whether cross-layer equalization adjusts the ranges of channels.
        bias_correction: Whether biases are corrected after quantizing, to preserve the mean of each output channel.
        smoothquant: SmoothQuant after normalizations: its alpha from 0 to 1; ``auto`` to search the best alpha for each
            normalization with outlier channels; None for no SmoothQuant.
        awq: Whether AWQ scales the input channels of low-bit weights, if data shows that products gain.
        float_layer: Whether a small layer stays in float if it alone makes most of the noise on calibration samples.
    """

    equalize: bool = option(
        True, "Equalize the ranges of channels between layers, if this provably changes no result.", SWITCH, section=HOW
    )
    bias_correction: bool = option(
        True,
        "Correct the biases: remove the error that rounded weights add to the mean of each channel.",
        SWITCH,
        section=HOW,
    )
    smoothquant: float | Literal["auto"] | None = option(
        "auto",
        "Scale down outlier channels after normalizations, and scale up the weights that read them: auto searches "
        "alpha for each normalization, a number from 0 to 1 is alpha for all.",
        _ALPHA,
        section=HOW,
    )
    awq: bool = option(
        True,
        "In 4-bit weight-only modes with data: scale up weights with large inputs, and scale down the layer before, if "
        "this lowers the error of the products on data that did not choose the factors.",
        choice("auto", "off", values=(True, False)),
        section=HOW,
    )
    float_layer: bool = option(
        True,
        "With the calibration method auto: leave a layer in float if it alone makes most of the noise at the worst "
        "output, and has at most 1 % of the work and of the weights.",
        SWITCH,
        section=HOW,
    )

    def __post_init__(self) -> None:
        alpha = self.smoothquant
        if not (alpha is None or alpha == "auto" or (isinstance(alpha, float) and 0 <= alpha <= 1)):
            raise ArgumentError(f"smoothquant is {alpha!r}; legal: 'auto', or a number from 0 to 1")


@dataclass(frozen=True, slots=True)
class SelectionOptions:
    """Globs (``*``, ``?``, ``[...]``, case-sensitive) that select nodes. Exclusion has priority.

    Attributes:
        nodes_to_quantize: Quantize only nodes whose name or output name matches; empty for all.
        nodes_to_exclude: Do not quantize nodes whose name or output name matches.
        op_types_to_quantize: Quantize only operators that match; empty for all. An operator that stays float because it
            gains nothing is quantized if its full name is given here.
        op_types_to_exclude: Do not quantize operators that match.
    """

    nodes_to_quantize: tuple[str, ...] = option(
        (),
        "Quantize only nodes whose name or output name matches; repeatable.",
        listed("GLOB", offers="node_names"),
        section=WHAT,
    )
    nodes_to_exclude: tuple[str, ...] = option(
        (),
        "Exclude nodes whose name or output name matches; repeatable.",
        listed("GLOB", offers="node_names"),
        section=WHAT,
    )
    op_types_to_quantize: tuple[str, ...] = option(
        (),
        "Quantize only these operators, even one that stays float by default; repeatable.",
        listed("GLOB", offers="op_types"),
        section=WHAT,
    )
    op_types_to_exclude: tuple[str, ...] = option(
        (), "Exclude these operators; repeatable.", listed("GLOB", offers="op_types"), section=WHAT
    )


def _modes_help() -> str:
    both = [name for name in modes.in_order() if modes.get(name).needs_ranges]
    weights = [name for name in modes.in_order() if not modes.get(name).needs_ranges]
    return (
        f"Format of activations and weights: {_one_of(both)} for both; {_one_of(weights)} for weights only; "
        "or a signed format of `qdqtool explain formats` for both."
    )


def _one_of(names: Iterable[str]) -> str:
    """Join words: ``a, b or c``."""
    *others, last = names
    return f"{', '.join(others)} or {last}" if others else last


def _block_sizes_help() -> str:
    sizes = {name: modes.get(name).blocks for name in modes.in_order() if len(modes.get(name).blocks) > 1}
    return " ".join(
        f"{name}: number of weights that share a scale, {_one_of(map(str, sorted(legal)))}.  [default: {legal[0]}]"
        for name, legal in sizes.items()
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RecipeOptions:
    """What to quantize, and how to derive scales from ranges.

    Attributes:
        quantize_mode: Id of a mode (:mod:`qdqtool.quantization.planning.modes`).
        block_size: Number of elements that share a scale, in modes with blocks; None for the default of the mode.
        method: Id of a calibrator (:mod:`qdqtool.quantization.ranges.calibrators`).
        percentile: For the method ``percentile``: the percentage of values that are not clipped; None for the default.
        target: Id of a target (:mod:`qdqtool.models.targets`).
        selection: The nodes to quantize.
        existing: How existing Q/DQ nodes of the model are handled.
        input_shapes: Extents that the user sets, by input name.
        input_values: Values that the user sets, by input name: such an input becomes a constant.
        plugin_ops: Operators that TensorRT runs as plugins.
        preparation: How the float model is prepared.
    """

    quantize_mode: str = option(
        modes.DEFAULT, _modes_help, text("MODE", offers="quantization.planning.modes"), section=WHAT
    )
    block_size: int | None = option(None, _block_sizes_help, integer(), section=WHAT)
    method: str = option(
        "auto",
        "Method that chooses the ranges: max, mse, entropy or percentile for all tensors; or auto, which clips a "
        "tensor if this lowers its error, or uses another method if this makes the outputs more accurate.",
        text("METHOD", offers="quantization.ranges.calibrators"),
        name="calibration_method",
        section=HOW,
    )
    percentile: float | None = option(
        None, "percentile: percentage of the values that are not clipped.  [default: 99.99]", number("P"), section=HOW
    )
    target: str = option(
        "tensorrt",
        "Target of the model: onnx, ort-cpu, tensorrt or tensorrt-rtx.",
        text("TARGET", offers="target_names"),
        section=WHAT,
    )
    selection: SelectionOptions = field(default_factory=SelectionOptions)
    existing: Existing = option(
        Existing.REFUSE,
        "If the model has Q/DQ: refuse it, keep them and quantize only the float nodes, or replace them.",
        choice("refuse", "keep", "replace", values=Existing),
        section=WHAT,
    )
    input_shapes: Mapping[str, tuple[int, ...]] = option(
        {}, f"Fix the shape of an input, and fold nodes that become constant; {SEVERAL}", SHAPES, section="Data"
    )
    input_values: Mapping[str, tuple[float, ...]] = option(
        {}, f"Make an input a constant, and fold nodes that become constant; {SEVERAL}", VALUES, section="Data"
    )
    plugin_ops: tuple[PluginOperator, ...] = plugin_ops_option(WHAT)
    preparation: Preparation = field(default_factory=Preparation)
