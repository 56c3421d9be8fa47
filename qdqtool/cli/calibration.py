"""Options of the commands that calibrate."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from qdqtool.cli.completion import node_names, offer, op_types, target_names, units
from qdqtool.cli.media import make_read_options, media_options, require_data
from qdqtool.cli.options import ComputedHelp, constant_data_option, samples_option, shapes_option, values_option
from qdqtool.cli.preparation import PREPARATION_OPTIONS, make_preparation

if TYPE_CHECKING:
    from qdqtool.quantization.planning.placement import Selection
    from qdqtool.quantization.planning.recipe import Recipe
    from qdqtool.samples.request import FileData, RandomData

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

_SELECTING = (
    ("--nodes-to-quantize", "Only nodes with a matching name or output name."),
    ("--nodes-to-exclude", "Not these nodes."),
    (
        "--op-types-to-quantize",
        "Only these operators, even one that stays float by default.",
    ),
    ("--op-types-to-exclude", "Not these operators."),
)

DATA = ("calib_data", "allow_constant_data", "samples", "random_calibration", "seed")
WHAT = ("target", "quantize_mode", "block_size")
SELECTING = tuple(name.strip("-").replace("-", "_") for name, _ in _SELECTING)
HOW = ("calibration_method", "percentile", "equalize", "bias_correction", "smoothquant", "awq", "float_layer")
"""The options by the headings that they stand under in help texts."""


def data_options() -> Callable[[Decorated], Decorated]:
    """``--calib-data``, ``--random-calibration``, ``--seed``, ``--samples`` and those of images, sound and text."""
    options = (
        samples_option(
            "Calibration data: .npz, .npy, a folder of either, of images or of sound "
            "files, a .txt file, ONNX test_data_set_* folders, or "
            "SCRIPT.py[:func].",
            "calib_data",
        ),
        constant_data_option(),
        click.option(
            "--random-calibration",
            is_flag=True,
            help="Calibrate on random inputs, to try a pipeline out; the model's metadata will say so.",
        ),
        click.option(
            "--seed", type=click.IntRange(min=0), metavar="N", help="Seed of --random-calibration.  [default: 0]"
        ),
        click.option(
            "--samples", type=click.IntRange(min=1), metavar="N", help="Use only so many samples.  [default: all]"
        ),
        media_options(),
    )
    return _all(options)


def make_data(values: dict[str, Any]) -> "FileData | RandomData":
    """The data that the values of :func:`data_options` ask for; they are taken out of ``values``.

    Raises:
        UsageError: Not exactly one source is named, or an option does not go with it.
    """
    from qdqtool.errors import UsageError
    from qdqtool.samples.request import FileData, RandomData

    path, random = values.pop("calib_data"), values.pop("random_calibration")
    seed, samples, allow_constant = values.pop("seed"), values.pop("samples"), values.pop("allow_constant_data")
    if path is not None and random:
        raise UsageError("--calib-data and --random-calibration exclude each other")
    if seed is not None and not random:
        raise UsageError("--seed goes with --random-calibration only")
    require_data(values, not random)
    options = make_read_options(values)
    if random:
        return RandomData(seed=seed or 0, samples=samples)
    if path is None:
        raise UsageError(
            "no calibration data is given, and nothing is ever calibrated on made-up data unasked",
            hint="`--calib-data DATA`; or, for a trial, `--random-calibration`",
        )
    return FileData(path=path, samples=samples, allow_constant=allow_constant, options=options)


def recipe_options() -> Callable[[Decorated], Decorated]:
    """What is quantized, for what, and by which method; :func:`make_recipe` takes their values."""
    options = (
        click.option(
            "--quantize-mode",
            cls=ComputedHelp,
            default="int8",
            show_default=True,
            metavar="MODE",
            shell_complete=offer(units("quantization.planning.modes")),
            help_text=_modes_help,
        ),
        click.option(
            "--block-size",
            cls=ComputedHelp,
            type=int,
            metavar="N",
            help_text=_block_sizes_help,
        ),
        click.option(
            "--calibration-method",
            default="auto",
            show_default=True,
            metavar="METHOD",
            shell_complete=offer(units("quantization.ranges.calibrators")),
            help="How ranges are chosen: max, mse, entropy or percentile for all tensors; or auto, which clips a "
            "tensor where that lowers its error, or takes one of the others if the outputs keep more with it.",
        ),
        click.option(
            "--percentile",
            type=float,
            metavar="P",
            help="percentile: how many of a hundred values are not clipped.  [default: 99.99]",
        ),
        click.option(
            "--target",
            default="tensorrt",
            show_default=True,
            metavar="TARGET",
            shell_complete=offer(target_names),
            help="What the model is for: onnx, ort-cpu, tensorrt or tensorrt-rtx.",
        ),
        *(
            click.option(
                name,
                multiple=True,
                metavar="GLOB",
                help=f"{text} Repeatable.",
                shell_complete=offer(op_types if "op-types" in name else node_names),
            )
            for name, text in _SELECTING
        ),
        click.option(
            "--existing",
            type=click.Choice(["refuse", "keep", "replace"]),
            default="refuse",
            show_default=True,
            help="What becomes of Q/DQ that the model has: refuse such a model, keep them and quantize only what is "
            "float, or take them out first.",
        ),
        shapes_option("--input-shapes", "Fix the shape of an input, and fold what that decides"),
        values_option("Make an input a constant, and fold what that decides"),
        *PREPARATION_OPTIONS,
    )
    return _all(options)


def make_recipe(values: dict[str, Any]) -> "Recipe":
    """The recipe that the values of :func:`recipe_options` ask for; they are taken out of ``values``."""
    from qdqtool.quantization.planning.existing import Existing
    from qdqtool.quantization.planning.recipe import Recipe
    from qdqtool.samples.input_shapes import parse_numbers, parse_shapes

    return Recipe(
        quantize_mode=values.pop("quantize_mode"),
        block_size=values.pop("block_size"),
        method=values.pop("calibration_method"),
        percentile=values.pop("percentile"),
        target=values.pop("target"),
        existing=Existing(values.pop("existing")),
        input_shapes=parse_shapes(values.pop("input_shapes"), "--input-shapes"),
        input_values=parse_numbers(values.pop("input_values"), "--input-values"),
        selection=_selection(values),
        preparation=make_preparation(values),
    )


def _selection(values: dict[str, Any]) -> "Selection":
    from qdqtool.quantization.planning.placement import Selection

    given: dict[str, Any] = {name: tuple(values.pop(name)) for name in SELECTING}
    return Selection(**given)


def _modes_help() -> str:
    from qdqtool.quantization.planning import modes

    both = [name for name in modes.in_order() if modes.get(name).needs_ranges]
    weights = [name for name in modes.in_order() if not modes.get(name).needs_ranges]
    return (
        f"What becomes of activations and weights: {_one_of(both)} for both; {_one_of(weights)} for weights only; "
        "or a signed format of `qdqtool explain formats` for both."
    )


def _one_of(names: Iterable[str]) -> str:
    """``a, b or c``."""
    *others, last = names
    return f"{', '.join(others)} or {last}" if others else last


def _block_sizes_help() -> str:
    from qdqtool.quantization.planning import modes

    sizes = {name: modes.get(name).blocks for name in modes.in_order() if len(modes.get(name).blocks) > 1}
    return " ".join(
        f"{name}: weights that share a scale, {_one_of(map(str, sorted(legal)))}.  [default: {legal[0]}]"
        for name, legal in sizes.items()
    )


def _all(options: tuple[Callable[[Decorated], Decorated], ...]) -> Callable[[Decorated], Decorated]:
    def decorate(function: Decorated) -> Decorated:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate
