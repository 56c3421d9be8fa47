"""Prepare a model for a builder: write fixed input shapes into it, and choose shapes for every dynamic input."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

from qdqtool.engines.build.options import BuildOptions
from qdqtool.engines.build.profiles import check_shapes, resolve_profiles
from qdqtool.engines.report import InputProfile
from qdqtool.engines.tensorrt.shape_values import measure_values, resolve_values
from qdqtool.errors import UsageError
from qdqtool.models.graph.index.growth import require_bounded
from qdqtool.models.graph.io.copying import copy_model
from qdqtool.models.graph.io.load import load_model
from qdqtool.models.graph.io.metadata import with_plugins
from qdqtool.models.graph.io.save import save_model
from qdqtool.models.graph.model import Model, Transformed
from qdqtool.models.graph.scope import function_path
from qdqtool.models.plugins import stand_in_paths
from qdqtool.models.report import Specialized
from qdqtool.models.scratch import ScratchFolder
from qdqtool.models.transforms.specialize import require_fitting, specialize
from qdqtool.samples.feeds import Feeds
from qdqtool.samples.signature import input_specs, stored_specs

_Shapes = tuple[tuple[str, tuple[int, ...]], ...]


@dataclass(frozen=True, slots=True)
class ModelToBuild:
    """A model that can be built.

    Attributes:
        model: The model to build; its external data is read from the folder of the original.
        file: The same model as stored in the file that the builder reads.
        specialized: How the model differs from the original; None if it is the same.
        profiles: Shapes of its dynamic inputs, for all profiles.
        values: Values that the user gave for inputs that decide shapes.
        measured_values: Values that integer inputs have in the data.
    """

    model: Model
    file: Model
    specialized: Specialized | None
    profiles: tuple[InputProfile, ...]
    values: tuple[InputProfile, ...]
    measured_values: tuple[InputProfile, ...]

    @property
    def has_fixed_shapes(self) -> bool:
        """Whether the user fixed the shape of an input."""
        return self.specialized is not None and bool(self.specialized.input_shapes)


@contextmanager
def model_to_build(model: Model, options: BuildOptions) -> Iterator[ModelToBuild]:
    """Choose the shapes of a model; a specialized model is kept in a temporary folder until the block ends."""
    model = with_plugins(model, options.plugin_ops)
    for shapes, _ in options.profiles():
        check_shapes(model.proto, shapes)
    fixed, constants = options.shapes.fixed, options.input_values
    special = specialize(model, fixed, constants) if fixed or constants else Transformed(model, None)
    require_bounded(special.model)
    data, specs = options.calib_data, (*input_specs(special.model), *stored_specs(special.model))
    feeds = data.feeds(specs) if data is not None else None
    profiles, values = _resolve(special.model, options, measure(feeds) if feeds is not None else {})
    # Shape inference takes an extent of 0 for a dynamic one, so an empty cache cannot be tried.
    tried = {each.name: each.opt for each in profiles if not each.profile and 0 not in each.opt}
    require_fitting(model, {**fixed, **tried})
    measured = measure_values(feeds) if feeds is not None else ()
    read = _without_stand_ins(special.model) if options.deployment.plugins else special.model
    if read is model:
        yield ModelToBuild(model, model, None, profiles, values, measured)
        return
    with stored(read) as file:
        yield ModelToBuild(special.model, file, special.report, profiles, values, measured)


def _without_stand_ins(model: Model) -> Model:
    """Return the model without the local functions that plugins replace: TensorRT prefers a function to a plugin."""
    paths = stand_in_paths(model.proto)
    kept = [each for each in model.proto.functions if function_path(each) not in paths]
    if len(kept) == len(model.proto.functions):
        return model
    result = model.fork(copy_model(model.proto))
    del result.proto.functions[:]
    result.proto.functions.extend(kept)
    return result


def _resolve(
    model: Model, options: BuildOptions, measured: Mapping[str, InputProfile]
) -> tuple[tuple[InputProfile, ...], tuple[InputProfile, ...]]:
    profiles: list[InputProfile] = []
    values: list[InputProfile] = []
    for index, (shapes, shape_values) in enumerate(options.profiles()):
        profiles += [replace(entry, profile=index) for entry in resolve_profiles(model.proto, shapes, measured)]
        values += [replace(entry, profile=index) for entry in resolve_values(model, shape_values)]
    if options.further_profiles and not profiles and not values:
        raise UsageError(
            f"--profile {len(options.further_profiles)} is given, but the model has no dynamic input",
            hint="leave the profiles out",
        )
    return tuple(profiles), tuple(values)


@contextmanager
def stored(model: Model) -> Iterator[Model]:
    """Store a model from memory in a temporary file until the block ends."""
    with ScratchFolder("qdqtool-model-") as folder:
        # TensorRT reads the model and its external data from a file (parse_from_file), not from our memory.
        yield load_model(save_model(model, folder.path / "model.onnx").model)


def measure(feeds: Feeds) -> dict[str, InputProfile]:
    """Return the smallest, most frequent and largest shape of every input over all samples.

    If several shapes are equally frequent, the largest one is taken.
    """
    seen = Counter(tuple((name, array.shape) for name, array in sorted(sample.items())) for sample in feeds)
    best = dict(max(seen.items(), key=lambda entry: (entry[1], entry[0]))[0])
    return {name: _profile(name, shape, seen) for name, shape in best.items()}


def _profile(name: str, best: tuple[int, ...], seen: Iterable[_Shapes]) -> InputProfile:
    extents = list(zip(*(dict(shapes)[name] for shapes in seen), strict=True))
    return InputProfile(name, tuple(map(min, extents)), best, tuple(map(max, extents)))
