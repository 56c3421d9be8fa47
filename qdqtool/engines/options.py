"""The options of ``build`` (profiles of shapes, deployment and gates), ``run`` and ``bench``."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from qdqtool.engines.tensorrt.deployment import DeploymentOptions
from qdqtool.errors import ArgumentError
from qdqtool.models.plugins import PluginOperator, plugin_ops_option
from qdqtool.options import Kind, choice, file, integer, listed, number, option, output, text
from qdqtool.registry import suggestion
from qdqtool.samples.input_shapes import Shapes, parse_values
from qdqtool.samples.options import (
    CONSTANT_DATA,
    DATA,
    FILES,
    SAMPLES,
    SEVERAL,
    SHAPES,
    VALUES,
    ReadOptions,
    named_shapes,
    samples_option,
)

SHAPE_VALUES = replace(SHAPES, metavar="NAME:2x-1", read=parse_values)
SM = ("--compute-capabilities", "--sm")
GPUS = replace(text("SM,..."), keyword="Sequence[str]", take=",".join)


def _named_profiles(given: Sequence[Mapping[str, Mapping[str, Sequence[int]]]]) -> tuple[dict[str, Any], ...]:
    legal = [f"{kind}_{what}" for what in ("shapes", "shape_values") for kind in ("min", "opt", "max")]
    for name in (name for profile in given for name in profile if name not in legal):
        raise ArgumentError(f"profiles has no shapes '{name}'{suggestion(name, legal)}")
    return tuple({name: named_shapes(shapes) for name, shapes in profile.items()} for profile in given)


_shapes = partial(option, section="Shapes")
_engine = partial(option, section="Engine")


@dataclass(init=False, repr=False, eq=False)
class ProfileShapes:
    """The shapes of one optimization profile, and the values of inputs that decide shapes."""

    min_shapes: Shapes = _shapes({}, f"Smallest shapes of dynamic inputs; {SEVERAL}", SHAPES)
    opt_shapes: Shapes = _shapes(
        {}, f"Shapes to optimize for, and the default of minimum and maximum; {SEVERAL}", SHAPES
    )
    max_shapes: Shapes = _shapes({}, f"Largest shapes of dynamic inputs; {SEVERAL}", SHAPES)
    min_shape_values: Shapes = _shapes({}, f"Smallest values of inputs that decide shapes; {SEVERAL}", SHAPE_VALUES)
    opt_shape_values: Shapes = _shapes(
        {}, f"Values to optimize for, and the default of minimum and maximum; {SEVERAL}", SHAPE_VALUES
    )
    max_shape_values: Shapes = _shapes({}, f"Largest values of inputs that decide shapes; {SEVERAL}", SHAPE_VALUES)


@dataclass(init=False, repr=False, eq=False)
class BuildCommand:
    """Options of ``build_engine``."""

    backend: Literal["auto", "tensorrt", "tensorrt-rtx"] = _engine(
        "auto",
        "TensorRT (needs a GPU) or TensorRT for RTX (needs none). auto takes the first that is installed; `convert` "
        "prefers the builder of --target.",
        choice("auto", "tensorrt", "tensorrt-rtx"),
    )
    shapes: ProfileShapes = field(default_factory=ProfileShapes)
    profiles: Sequence[Mapping[str, Shapes]] = _shapes(
        (),
        "Further optimization profiles, each with some of the six keywords of shapes.",
        Kind(form="text", keyword="Sequence[Mapping[str, Shapes]]", take=_named_profiles, is_repeated=True),
        only="python",
    )
    input_shapes: Shapes = _shapes(
        {}, f"Fix the shape of an input, and fold nodes that become constant; {SEVERAL}", SHAPES
    )
    input_values: Mapping[str, tuple[float, ...]] = _shapes(
        {}, f"Make an input a constant, and fold nodes that become constant; {SEVERAL}", VALUES
    )
    calib_data: Any = _shapes(
        None,
        "Take the shapes of dynamic inputs from this calibration data: smallest, most frequent and largest.",
        DATA,
        flags=("--calib-data", "--data"),
    )
    compute_capabilities: str | None = _engine(
        None,
        "GPUs to build for, such as 8.6,8.9 or sm86,sm89. Default for tensorrt-rtx: 8.0,8.6,8.9,12.0,12.1, except "
        "those that lack a type of the model; tensorrt builds for the GPU in the machine.",
        GPUS,
        flags=SM,
    )
    deployment: DeploymentOptions = field(default_factory=DeploymentOptions)
    plugin_ops: tuple[PluginOperator, ...] = plugin_ops_option("Engine")
    require_precision: Sequence[str] = option(
        (),
        "Fail and write no engine unless this share of the nodes planned for a type runs in it: int8>=95%. "
        "'int8>=95% of work' is the share of all multiply-accumulates.",
        listed("TYPE>=PERCENT%"),
        section="Gates",
    )
    locked: Path | None = _engine(
        None,
        "Build only if model, external data, options, profiles, product and version are the same as in this manifest.",
        file("MANIFEST"),
    )
    sign: Path | None = _engine(
        None, "Sign the manifest with this OpenSSH key; write the signature to FILE.manifest.json.sig.", file("KEY")
    )
    export_layer_info: Path | None = option(
        None, "Write the engine's layers, as JSON.", output("FILE"), section="Report"
    )
    verbose_log: Path | None = option(None, "Write the builder's whole log.", output("FILE"), section="Report")
    skip_validate: bool = option(False, "Build without validating first; the report shows SKIPPED.", section="Gates")
    timeout: float = _engine(1800, "Stop the builder after this time.", number("SECONDS"))


@dataclass(init=False, repr=False, eq=False)
class RunCommand:
    """Options of ``run_engine``."""

    data: Any = samples_option(FILES, "Data")
    allow_constant_data: bool = option(False, CONSTANT_DATA, section="Data")
    samples: int | None = option(None, f"{SAMPLES}  [default: all]", integer(minimum=1), section="Data")
    reading: ReadOptions = field(default_factory=ReadOptions)


@dataclass(init=False, repr=False, eq=False)
class BenchCommand:
    """Options of ``bench_engine``."""

    against: Path | None = option(
        None, "The engine of the float model; both are timed in turns.", file("FLOAT.engine"), section="What is timed"
    )
    data: Any = samples_option(
        "Samples; only the first is run. Default: a random sample of the shapes that ENGINE was built for.",
        "What is timed",
    )
    rounds: int = option(10, "Number of rounds; each times every engine.", integer(minimum=1), section="How often")
    runs: int = option(50, "Timed inferences in each round.", integer(minimum=1), section="How often")
    warm_up: int = option(20, "Untimed inferences before them.", integer(minimum=0), section="How often")
    speedup: str | None = option(
        None,
        "Fail unless ENGINE is this many times as fast as --against, such as '>=1.2x'; slower layers are named.",
        text(">=RATIOx"),
        section="Gates",
    )
