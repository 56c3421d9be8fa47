"""Run a model in ONNX Runtime before and after a change on the same feeds, and compare outputs and inner tensors."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

import numpy as np

from qdqtool.errors import QdqError, plural
from qdqtool.linting.repair.places import Place, changed_places
from qdqtool.models.graph.index.growth import require_bounded
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.model import Model
from qdqtool.models.graph.scope import walk
from qdqtool.models.options import Profile
from qdqtool.models.running.ort_cpu import ModelSession, Session
from qdqtool.models.running.own_evaluator import open_session
from qdqtool.models.running.own_support import plan_split
from qdqtool.models.transforms.taps import TensorKey, tap_tensors
from qdqtool.numerics.dtypes import Array
from qdqtool.samples.feeds import Feeds, load_feeds
from qdqtool.samples.noise import random_feeds
from qdqtool.samples.request import DataRequest
from qdqtool.samples.signature import input_specs, with_shapes

MIN_SAMPLES = 2
"""Smallest number of samples: a single sample cannot show whether an output varies."""

NOTHING_VARIES = (
    "no compared tensor varies over the samples, so the comparison proves nothing; give other samples with --data"
)

NOT_RUN = "no sample ran the code next to the change, so it is not proven; give other samples with --data"
EXTREMES = "outputs change where inputs are infinite, very large or very small"
NAN_INPUTS = "outputs change where inputs are NaN"
WEAK = frozenset({NOTHING_VARIES, NOT_RUN, EXTREMES, NAN_INPUTS})
"""Gaps of a proof, which ``--unsafe-fixes`` accepts."""

Sample = dict[str, Array]


@dataclass(frozen=True, slots=True)
class Run:
    """The outputs of a model for each sample, or why it cannot be run."""

    samples: tuple[Sample, ...] = ()
    failure: str | None = None


@dataclass(frozen=True, slots=True)
class Proof:
    """The comparison of a model before and after a change.

    Attributes:
        outputs: The first difference of an output, in words; None if all outputs have the same bits.
        places: How many tensors next to the change were compared.
        place: The first difference of such a tensor, in words; None if all are equal.
        varies: Whether any compared tensor differs between two samples. A tensor that is constant over the samples
            proves nothing: it often stays the same although the model changed.
        runs: Whether the code next to each change was run in at least one sample.
        extremes: Whether the outputs are also equal if float inputs are infinite, very large, subnormal or zero.
        nan: Whether the outputs are also equal if float inputs are NaN.
    """

    outputs: str | None
    places: int = 0
    place: str | None = None
    varies: bool = True
    runs: bool = True
    extremes: bool = True
    nan: bool = True

    @property
    def holds(self) -> bool:
        """Whether all compared tensors have the same bits before and after, and the samples can show a difference."""
        return self.problem is None

    @property
    def problem(self) -> str | None:
        """Why the proof does not hold; None if it holds."""
        if self.outputs is not None:
            return self.outputs
        if self.place is not None:
            return f"the outputs are the same, but {self.place}"
        weak = ((self.runs, NOT_RUN), (self.varies, NOTHING_VARIES), (self.extremes, EXTREMES), (self.nan, NAN_INPUTS))
        return next((problem for holds, problem in weak if not holds), None)

    def words(self, samples: str) -> str:
        """Describe in words what equal outputs prove."""
        if self.problem is not None:
            return f"outputs are bit-equal on {samples}, but {self.place or self.problem}"
        tensors = f" and {plural(self.places, 'tensor')} next to the change" if self.places else ""
        return f"outputs{tensors} are bit-equal on {samples}"


@dataclass(slots=True)
class Prover:
    """Runs models on the same feeds in the reference session.

    Args:
        model: The model that defines the inputs.
        request: The requested feeds. If random feeds cannot be drawn, every run fails with the reason.

    Raises:
        UsageError: The user's data does not fit the model.
    """

    model: Model
    request: DataRequest
    _feeds: Feeds | None = field(init=False, default=None)
    _failure: str | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        try:
            self._feeds = _feeds(self.model, self.request)
        except QdqError as error:
            if self.request.path is not None or self.request.input_shapes:
                raise
            self._failure = reason(error)

    @property
    def description(self) -> str:
        """The origin and number of the feeds, in words."""
        if self._feeds is None:
            return ""
        count = len(self._feeds)
        origin = str(self.request.path) if self.request.path is not None else f"random inputs, seed {self.request.seed}"
        return f"{count} {'sample' if count == 1 else 'samples'} ({origin})"

    def run(self, model: Model, feeds: Iterable[Sample] | None = None) -> Run:
        """Return the outputs of ``model`` for every sample, or for other feeds."""
        if self._feeds is None:
            return Run(failure=self._failure)
        try:
            with _session(_without_node_names(model)) as session:
                return Run(tuple(session.run(feed) for feed in (self._feeds if feeds is None else feeds)))
        except QdqError as error:
            return Run(failure=reason(error))

    def prove(self, before: tuple[Model, Run], after: tuple[Model, Run]) -> Proof:
        """Compare two models: the outputs of their runs, and the tensors next to the change."""
        outputs = same_bits(before[1], after[1])
        is_varied = len(before[1].samples) < MIN_SAMPLES or not self.model.proto.graph.input or _varies(before[1])
        if outputs is not None:
            return Proof(outputs)
        old, new = ModelIndex.of(before[0]), ModelIndex.of(after[0])
        places = changed_places(old, new)
        keys = dict.fromkeys(key for place in places for key in place.keys)
        first, second = self._digests(old, keys), self._digests(new, keys)
        compared = [place for place in places if first.get(place.key) and second.get(place.key)]
        runs = all(first.get(place.key) != [] for place in places)
        equal = {key for key in first if first[key] == second.get(key)}
        fault = next((_place_fault(place, first, second) for place in compared if _is_fault(place, equal)), None)
        varied = is_varied or any(len(set(first[place.key])) > 1 for place in compared)
        extremes, nan = (self._same_on((before[0], after[0]), values) for values in (_EXTREMES, _NAN))
        return Proof(None, len(compared), fault, varied, runs, extremes, nan)

    def _same_on(self, models: tuple[Model, Model], values: "_Values") -> bool:
        assert self._feeds is not None
        return same_values(*(self.run(model, _filled(self._feeds, values)) for model in models))

    def _digests(self, index: ModelIndex, keys: Iterable[TensorKey]) -> dict[TensorKey, list[bytes]]:
        """Return digests of each tensor, one for each sample; an empty list if no sample computes it.

        Tensors that cannot be read are left out.
        """
        assert self._feeds is not None
        values = [index.view.scope(path).values[name] for path, name in keys]
        if not values:
            return {}
        try:
            tapped = tap_tensors(index.view, values, index.elem_type)
            names = {key: [tap.output for tap in taps] for key, taps in tapped.report.places.items()}
            wanted = list(dict.fromkeys(name for outputs in names.values() for name in outputs))
            found: dict[TensorKey, list[bytes]] = {key: [] for key in names}
            ran: set[TensorKey] = set()
            with _session(_without_node_names(tapped.model)) as session:
                for feed in self._feeds:
                    run = session.run(feed, wanted)
                    for key, outputs in names.items():
                        found[key].append(_digest([run[name] for name in outputs]))
                        ran |= {key} if any(run[name].size for name in outputs) else set()
        except QdqError:
            return {}
        return {key: digests if key in ran else [] for key, digests in found.items()}


def _session(model: Model) -> ModelSession:
    """Open a session in ONNX Runtime; qdqtool's own core runs the nodes that ONNX Runtime refuses."""
    try:
        return Session(model, Profile.UNPACKED)
    except QdqError:
        split = plan_split(ModelIndex.of(model))
        if split is None:
            raise
        return open_session(model, split, Profile.UNPACKED)


def same_bits(before: Run, after: Run) -> str | None:
    """Return the first difference in words, or None if all outputs have the same bits on all samples."""
    for index, (first, second) in enumerate(zip(before.samples, after.samples, strict=True)):
        for name, array in first.items():
            if not equal_bits(array, second[name]):
                return f"output '{name}' differs on sample {index}"
    return None


def same_values(before: Run, after: Run) -> bool:
    """Return whether all outputs have equal values on all samples; the sign of zeros and the bits of NaN may differ.

    Models that cannot be run count as equal.
    """
    # With equal_nan, np.array_equal calls isnan, which raises TypeError on arrays of strings.
    return all(
        np.array_equal(array, second[name], equal_nan=array.dtype.kind == "f")
        for first, second in zip(before.samples, after.samples, strict=True)
        for name, array in first.items()
    )


def _varies(run: Run) -> bool:
    first, *others = run.samples
    return any(not equal_bits(array, other[name]) for other in others for name, array in first.items())


def _digest(arrays: Iterable[Array]) -> bytes:
    """Return a digest of the types, shapes and bits of arrays; the sign of zeros is ignored.

    Half precision is read as float32, which holds the same values: a fix may move values in another type.
    """
    found = hashlib.blake2b()
    for array in arrays:
        wide = array.astype(np.float32) if array.dtype.name in {"float16", "bfloat16"} else array
        plain = wide + 0.0 if wide.dtype.kind == "f" else wide
        found.update(f"{wide.dtype} {array.shape}".encode())
        found.update(np.ascontiguousarray(plain).astype(wide.dtype).tobytes())
    return found.digest()


def _is_fault(place: Place, equal: AbstractSet[TensorKey]) -> bool:
    """Return whether a tensor differs and this may matter: it has no readers, or the output of a reader differs."""
    return place.key not in equal and not (place.readers and equal >= set(place.readers))


def _place_fault(place: Place, before: Mapping[TensorKey, list[bytes]], after: Mapping[TensorKey, list[bytes]]) -> str:
    pairs = zip(before[place.key], after[place.key], strict=True)
    sample = next(number for number, (old, new) in enumerate(pairs) if old != new)
    return f"tensor '{place.key[1]}', next to the change, differs on sample {sample}"


_Values = tuple[tuple[str, float, float], ...]
_EXTREMES: _Values = (
    ("max", np.inf, np.inf),
    ("max", -np.inf, -np.inf),
    # Opposite infinities make NaN inside a model.
    ("max", np.inf, -np.inf),
    ("max", 1.0, -1.0),
    ("max", 0.0, -0.0),
    ("smallest_subnormal", 1.0, -1.0),
)
_NAN: _Values = (("max", np.nan, np.nan), ("max", np.nan, 0.0))


def _filled(feeds: Iterable[Sample], values: _Values) -> Iterator[Sample]:
    """Yield copies of the first sample; float inputs have two values in turn, in multiples of a limit of their type."""
    first = next(iter(feeds))
    for limit, even, odd in values:
        sample = {name: array.copy() for name, array in first.items()}
        for array in (each for each in sample.values() if each.dtype.kind == "f"):
            unit = float(getattr(np.finfo(array.dtype), limit))
            array.flat[::2], array.flat[1::2] = even * unit, odd * unit
        yield sample


def _feeds(model: Model, request: DataRequest) -> Feeds:
    specs = with_shapes(input_specs(model), request.input_shapes)
    if request.path is not None:
        feeds = load_feeds(request.path, specs, request.samples, allow_constant=request.allow_constant)
    else:
        feeds = random_feeds(ModelIndex.of(model), specs, seed=request.seed, samples=request.samples)
    require_bounded(model, feeds.description.shapes)
    return feeds


def _without_node_names(model: Model) -> Model:
    """Return the model without node names, since ONNX Runtime refuses equal names and the session adds names."""
    plain = model.fork()
    plain.proto = type(model.proto)()
    plain.proto.CopyFrom(model.proto)
    for _, container in walk(plain.proto):
        for node in container.node:
            node.name = ""
    return plain


def equal_bits(left: Array, right: Array) -> bool:
    """Return whether two arrays have the same type, shape and bits; strings are compared as strings."""
    if left.dtype != right.dtype or left.shape != right.shape:
        return False
    # The bytes of a string array are pointers. Elsewhere bytes are compared, so that -0.0 differs from 0.0 and NaN
    # equals itself.
    return bool(np.array_equal(left, right)) if left.dtype.hasobject else left.tobytes() == right.tobytes()


def reason(error: QdqError) -> str:
    """Return an error in one line, with its hint."""
    return f"{error.message}; {error.hint}" if error.hint else error.message
