"""The option that says in which type a quantized model computes what it leaves in float."""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from qdqtool.planning.recipe import Recipe

Decorated = TypeVar("Decorated", bound=Callable[..., Any])


def high_precision_option() -> Callable[[Decorated], Decorated]:
    """``--high-precision-dtype``."""
    return click.option(
        "--high-precision-dtype",
        type=click.Choice(["fp32", "fp16"]),
        default="fp32",
        show_default=True,
        help="What stays float: as it is, or in float16 wherever that holds the values; inputs and outputs stay.",
    )


def with_high_precision(recipe: "Recipe", values: dict[str, Any]) -> "Recipe":
    """The recipe with what :func:`high_precision_option` asks for, which is taken out of ``values``."""
    from qdqtool.planning.scale_type import HighPrecision

    return replace(recipe, high_precision=HighPrecision(values.pop("high_precision_dtype")))
