"""The options of a build, besides the model and the backend."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from qdqtool.engines.build.precision_gate import PrecisionGate, parse_gate
from qdqtool.engines.build.profiles import ShapeOptions
from qdqtool.engines.tensorrt.deployment import DeploymentOptions
from qdqtool.engines.tensorrt.gpus import parse
from qdqtool.engines.tensorrt.shape_values import ShapeValues
from qdqtool.errors import UsageError
from qdqtool.models.plugins import PluginOperator
from qdqtool.options import Values, build
from qdqtool.samples.request import FileData

DEFAULT_TIMEOUT = 1800.0
_EXTENTS = ("min", "opt", "max")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileOptions:
    """One more optimization profile of an engine.

    Attributes:
        shapes: Shapes of inputs. ``fixed`` must be empty, because a fixed shape applies to every profile.
        shape_values: Values of inputs that decide shapes.
    """

    shapes: ShapeOptions = field(default_factory=ShapeOptions)
    shape_values: ShapeValues = field(default_factory=ShapeValues)

    def __post_init__(self) -> None:
        if self.shapes.fixed:
            raise UsageError("a fixed shape applies to every profile; give it in BuildOptions.shapes")


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildOptions:
    """Options of a build.

    Attributes:
        shapes: Shapes of inputs. ``fixed`` shapes are written into the model before it is built.
        input_values: Values of inputs that become constants before the model is built.
        shape_values: Values of inputs that decide shapes.
        further_profiles: Profiles besides the first, which ``shapes`` and ``shape_values`` describe.
        deployment: Options that decide how the engine is deployed.
        calib_data: Calibration data, which gives shapes and shape values for inputs that the options do not name.
        compute_capabilities: Targets such as ``8.6``; empty for the backend's default.
        timeout: Time limit for parsing and building together, in seconds.
        skip_validate: Build without the validate gate; the report records this.
        plugin_ops: Operators that TensorRT runs as plugins, besides those in the note of the model.
        require_precision: Gates on the share of nodes that run as planned. If a gate is missed, no engine is written.
        locked: Manifest of an earlier build with the same model, options and product; None for a build that is not
            locked.
        sign_key: Key of OpenSSH that signs the manifest; None for no signature.
        layer_info: File for the layers of the engine; None for no file.
        verbose_log: File for the builder's whole log; None for no file.
    """

    shapes: ShapeOptions = field(default_factory=ShapeOptions)
    input_values: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    shape_values: ShapeValues = field(default_factory=ShapeValues)
    further_profiles: tuple[ProfileOptions, ...] = ()
    deployment: DeploymentOptions = field(default_factory=DeploymentOptions)
    calib_data: FileData | None = None
    compute_capabilities: tuple[str, ...] = ()
    timeout: float = DEFAULT_TIMEOUT
    skip_validate: bool = False
    plugin_ops: tuple[PluginOperator, ...] = ()
    require_precision: tuple[PrecisionGate, ...] = ()
    locked: Path | None = None
    sign_key: Path | None = None
    layer_info: Path | None = None
    verbose_log: Path | None = None

    def __post_init__(self) -> None:
        if not self.timeout > 0:
            raise UsageError(f"timeout is {self.timeout:g} s; it must be greater than 0")

    def profiles(self) -> tuple[tuple[ShapeOptions, ShapeValues], ...]:
        """Return the shapes and shape values of every profile, each with the fixed shapes."""
        further = [(replace(each.shapes, fixed=self.shapes.fixed), each.shape_values) for each in self.further_profiles]
        return ((self.shapes, self.shape_values), *further)


def build_request(values: Values) -> BuildOptions:
    """Make the options of a build from option values, and remove the used values from ``values``.

    Raises:
        UsageError: A value is illegal.
    """
    shapes, shape_values = _profile(values)
    data, gpus = values.pop("calib_data", None), values.pop("compute_capabilities", None)
    return build(
        BuildOptions,
        values,
        shapes=replace(shapes, fixed=values.pop("input_shapes", {})),
        shape_values=shape_values,
        further_profiles=tuple(
            ProfileOptions(shapes=each, shape_values=decides)
            for each, decides in map(_profile, values.pop("profiles", ()))
        ),
        calib_data=FileData(path=data, allow_constant=True) if data is not None else None,
        compute_capabilities=parse(gpus) if gpus is not None else (),
        require_precision=tuple(map(parse_gate, values.pop("require_precision", ()))),
        sign_key=values.pop("sign", None),
        layer_info=values.pop("export_layer_info", None),
    )


def _profile(values: Values) -> tuple[ShapeOptions, ShapeValues]:
    """Return the shapes and shape values of one profile, and remove them from ``values``."""
    shapes = {kind: values.pop(f"{kind}_shapes", {}) for kind in _EXTENTS}
    return ShapeOptions(**shapes), ShapeValues(**{kind: values.pop(f"{kind}_shape_values", {}) for kind in _EXTENTS})
