"""Options of how a float model is made ready before it is calibrated."""

from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from qdqtool.quantization.planning.recipe import Preparation

PREPARATION_OPTIONS = (
    click.option(
        "--equalize/--no-equalize",
        default=True,
        show_default=True,
        help="Even out the ranges of channels between layers, where that provably changes no result.",
    ),
    click.option(
        "--bias-correction/--no-bias-correction",
        default=True,
        show_default=True,
        help="Let biases make up for what rounding the weights adds to the mean of each channel.",
    ),
    click.option(
        "--smoothquant",
        default="auto",
        show_default=True,
        metavar="auto|off|ALPHA",
        help="Make outlier channels behind normalizations smaller and the weights that read them larger: with the best "
        "alpha for each normalization that has some, or one from 0 to 1 for all.",
    ),
    click.option(
        "--awq",
        type=click.Choice(["auto", "off"]),
        default="auto",
        show_default=True,
        help="In weight-only modes of 4 bits with data: make weights that meet large inputs larger, and the layer in "
        "front smaller, where products then lose less on data that chose nothing.",
    ),
    click.option(
        "--float-layer/--no-float-layer",
        default=True,
        show_default=True,
        help="With the calibration method auto: leave a layer in float that has at most 1 % of the work and of the "
        "weights, and alone makes most of the noise at the worst output.",
    ),
)
"""What :func:`make_preparation` reads."""


def make_preparation(values: dict[str, Any]) -> "Preparation":
    """The steps that the values of :data:`PREPARATION_OPTIONS` ask for; they are taken out of ``values``.

    Raises:
        ArgumentError: An alpha is none.
    """
    from qdqtool.errors import ArgumentError
    from qdqtool.quantization.planning.recipe import Preparation

    text = values.pop("smoothquant")
    try:
        alpha = None if text == "off" else text if text == "auto" else float(text)
    except ValueError:
        raise ArgumentError(f"--smoothquant is {text!r}; legal: auto, off, or a number from 0 to 1") from None
    return Preparation(
        equalize=values.pop("equalize"),
        smoothquant=alpha,
        bias_correction=values.pop("bias_correction"),
        awq=values.pop("awq") == "auto",
        float_layer=values.pop("float_layer"),
    )
