"""The options of ``build``: profiles of shapes, deployment and gates."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from qdqtool.engines.tensorrt.deployment import DeploymentOptions
from qdqtool.errors import ArgumentError
from qdqtool.options import Kind, choice, file, listed, number, option, output, text
from qdqtool.registry import suggestion
from qdqtool.samples.input_shapes import Shapes, parse_values
from qdqtool.samples.options import DATA, SEVERAL, SHAPES, VALUES, named_shapes

SHAPE_VALUES = replace(SHAPES, metavar="NAME:2x-1", read=parse_values)
GPUS = replace(text("SM,..."), keyword="Sequence[str]", take=",".join)


def _named_profiles(given: Sequence[Mapping[str, Mapping[str, Sequence[int]]]]) -> tuple[dict[str, Any], ...]:
    legal = [f"{kind}_{what}" for what in ("shapes", "shape_values") for kind in ("min", "opt", "max")]
    for name in (name for profile in given for name in profile if name not in legal):
        raise ArgumentError(f"profiles has no shapes '{name}'{suggestion(name, legal)}")
    return tuple({name: named_shapes(shapes) for name, shapes in profile.items()} for profile in given)


@dataclass(init=False, repr=False, eq=False)
class ProfileShapes:
    """The shapes of one optimization profile, and the values of inputs that decide shapes."""

    min_shapes: Shapes = option({}, f"Smallest shapes of dynamic inputs; {SEVERAL}", SHAPES, section="Shapes")
    opt_shapes: Shapes = option(
        {}, f"Shapes to optimize for; alone they are the only ones; {SEVERAL}", SHAPES, section="Shapes"
    )
    max_shapes: Shapes = option({}, f"Largest shapes of dynamic inputs; {SEVERAL}", SHAPES, section="Shapes")
    min_shape_values: Shapes = option(
        {}, f"Smallest values of inputs that decide shapes; {SEVERAL}", SHAPE_VALUES, section="Shapes"
    )
    opt_shape_values: Shapes = option(
        {}, f"Values to optimize for; alone they are the only ones; {SEVERAL}", SHAPE_VALUES, section="Shapes"
    )
    max_shape_values: Shapes = option(
        {}, f"Largest values of inputs that decide shapes; {SEVERAL}", SHAPE_VALUES, section="Shapes"
    )


@dataclass(init=False, repr=False, eq=False)
class BuildCommand:
    """Options of ``build_engine``."""

    backend: Literal["auto", "tensorrt", "tensorrt-rtx"] = option(
        "auto",
        "TensorRT (needs a GPU), TensorRT for RTX (needs none), or the first of them that is installed.",
        choice("auto", "tensorrt", "tensorrt-rtx"),
        section="Engine",
    )
    shapes: ProfileShapes = field(default_factory=ProfileShapes)
    profiles: Sequence[Mapping[str, Shapes]] = option(
        (),
        "Further optimization profiles, each with some of the six keywords of shapes.",
        Kind(form="text", keyword="Sequence[Mapping[str, Shapes]]", take=_named_profiles, is_repeated=True),
        section="Shapes",
        only="python",
    )
    input_shapes: Shapes = option(
        {}, f"Fix the shape of an input, and fold what that decides; {SEVERAL}", SHAPES, section="Shapes"
    )
    input_values: Mapping[str, tuple[float, ...]] = option(
        {}, f"Make an input a constant, and fold what that decides; {SEVERAL}", VALUES, section="Shapes"
    )
    calib_data: Any = option(
        None,
        "Take the shapes of dynamic inputs from this calibration data: smallest, most frequent and largest.",
        DATA,
        flags=("--calib-data", "--data"),
        section="Shapes",
    )
    compute_capabilities: str | None = option(
        None,
        "GPUs to build for, as 8.6,8.9 or sm86,sm89. Default for tensorrt-rtx: 8.0,8.6,8.9,12.0,12.1, less those that "
        "lack a type of the model; tensorrt builds for the GPU in the machine.",
        GPUS,
        section="Engine",
    )
    deployment: DeploymentOptions = field(default_factory=DeploymentOptions)
    require_precision: Sequence[str] = option(
        (),
        "Fail, and leave no engine, unless that share of the nodes planned for a type runs in it: int8>=95%.",
        listed("TYPE>=PERCENT%"),
        section="Gates",
    )
    locked: Path | None = option(
        None,
        "Build only if model, external data, options, profiles, product and version are those of this manifest.",
        file("MANIFEST"),
        section="Engine",
    )
    sign: Path | None = option(
        None,
        "Sign the manifest with this key of OpenSSH; the signature goes to FILE.manifest.json.sig.",
        file("KEY"),
        section="Engine",
    )
    export_layer_info: Path | None = option(
        None, "Write the engine's layers, as JSON.", output("FILE"), section="Report"
    )
    verbose_log: Path | None = option(None, "Write the builder's whole log.", output("FILE"), section="Report")
    skip_validate: bool = option(False, "Build without validating first; the report says SKIPPED.", section="Gates")
    timeout: float = option(1800, "Stop the builder after this time.", number("SECONDS"), section="Engine")
