"""Run a model with a switch at each Q/DQ pair on samples, and compare its outputs with the float model."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from typing import Protocol, Self

from qdqtool.accuracy.layers.layer import Layer
from qdqtool.accuracy.layers.masked_model import Setting
from qdqtool.accuracy.task_metrics.measure import Measure, RequestedMetric, Score
from qdqtool.accuracy.task_metrics.request import labelled_for, score_of
from qdqtool.errors import CapabilityError, ModelError
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.model import Model
from qdqtool.models.options import Profile
from qdqtool.models.running.accumulated_error import AccumulatedError
from qdqtool.models.running.ort_cpu import ModelSession
from qdqtool.models.running.own_evaluator import open_session
from qdqtool.models.running.own_support import plan_split
from qdqtool.numerics.dtypes import Array
from qdqtool.numerics.noise import Noise, noise_of
from qdqtool.samples.feeds import Feeds
from qdqtool.samples.sample import Sample

Outputs = Mapping[str, Array]
"""The float outputs of one run, by name."""

Errors = Mapping[str, AccumulatedError]
"""The error of each float output over some samples, by name."""


@dataclass(frozen=True, slots=True, eq=False)
class SettingEffect:
    """The effect of one setting on the outputs.

    Attributes:
        errors: The error of each output over all samples, by name.
        noise: Signal and noise of each output on each sample.
    """

    errors: Errors
    noise: Noise


class Switches(Protocol):
    """A model with additional inputs that switch its pairs."""

    @property
    def model(self) -> Model:
        """The model."""

    @property
    def all_float(self) -> Setting:
        """The setting with every pair switched off; its keys are the numbers of the pairs."""

    def feeds(self, setting: Setting) -> dict[str, Array]:
        """Return the arrays of the inputs that switch pairs, for each pair that the setting changes from the plan."""


class MaskedRuns:
    """One session of a masked model, with the samples that it runs. A context manager.

    The session uses ONNX Runtime's optimizations, except those that would change a Q or DQ. If ONNX Runtime refuses the
    optimized model, the session uses none. Outputs are compared with outputs of the same session with every pair
    switched off, so that only the pairs make a difference.

    Attributes:
        switches: As given.
        samples: As given.
        runs: Number of runs of a sample so far, including those with every pair switched off.
        outputs: Names of the float outputs of the model.
        all_outputs: Names of all outputs, float or not.
        tick: Called before every run of a sample, with the number of runs so far.

    Raises:
        CapabilityError: ONNX Runtime is not installed, or cannot run the model.
        ModelError: ONNX Runtime refuses the model.
    """

    def __init__(self, switches: Switches, samples: Sequence[Mapping[str, Array]]) -> None:
        self.switches = switches
        self.samples = samples
        self.runs = 0
        index = ModelIndex.of(switches.model)
        main = index.view.main
        self.outputs = [name for name in main.output_names() if index.is_float(main.values[name])]
        self.all_outputs = main.output_names()
        self._session = _opened(index)
        self._expected: dict[int, Outputs] = {}
        self.tick: Callable[[int], None] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._session.close()

    def run(self, setting: Setting, number: int) -> Outputs:
        """Return the float outputs of one sample with some pairs switched."""
        return self._run(self.switches.feeds(setting), number)

    def run_all(self, setting: Setting, samples: Iterable[Sample]) -> Iterator[tuple[Sample, Outputs]]:
        """Yield other samples with all outputs of the model, float or not, with some pairs switched."""
        fed = self.switches.feeds(setting)
        for sample in samples:
            self.runs += 1
            yield sample, self._session.run({**sample, **fed}, self.all_outputs)

    def expected(self, number: int) -> Outputs:
        """Return the float outputs of one sample with every pair switched off."""
        if number not in self._expected:
            found = self.run(self.switches.all_float, number)
            # copy(): one array of a session keeps all memory of the run alive.
            self._expected[number] = {name: array.copy() for name, array in found.items()}
        return self._expected[number]

    def noise(self, setting: Setting, numbers: Sequence[int] | None = None) -> Noise:
        """Return signal and noise of the outputs on the given samples, with some pairs switched."""
        return Noise.joined(noise_of(*pair) for pair in self._pairs(setting, numbers))

    def measure(self, setting: Setting, numbers: Sequence[int] | None = None) -> SettingEffect:
        """Return errors and noise of the outputs in one pass; arguments as :meth:`noise`."""
        errors, rows = {name: AccumulatedError() for name in self.outputs}, list[Noise]()
        for expected, found in self._pairs(setting, numbers):
            rows.append(noise_of(expected, found))
            for name, error in errors.items():
                error.add(expected[name], found[name])
        return SettingEffect(errors, Noise.joined(rows))

    def _pairs(self, setting: Setting, numbers: Sequence[int] | None) -> Iterator[tuple[Outputs, Outputs]]:
        fed = self.switches.feeds(setting)
        for number in range(len(self.samples)) if numbers is None else numbers:
            yield self.expected(number), self._run(fed, number)

    def _run(self, fed: Mapping[str, Array], number: int) -> Outputs:
        if self.tick is not None:
            self.tick(self.runs)
        self.runs += 1
        return self._session.run({**self.samples[number], **fed}, self.outputs)


def _opened(index: ModelIndex) -> ModelSession:
    split = plan_split(index)
    # ONNX Runtime 1.31.1 fuses a Pad into the MaxPool after it, and then refuses pads that are not below the kernel.
    with suppress(ModelError, CapabilityError):
        return open_session(index.model, split, Profile.OPTIMIZED)
    return open_session(index.model, split)


def float_setting(layers: Iterable[Layer]) -> Setting:
    """Return the setting with the pairs of some layers switched off."""
    return dict.fromkeys(chain.from_iterable(layer.sites for layer in layers))


def only_setting(layers: Iterable[Layer], switches: Switches) -> Setting:
    """Return the setting in which only the pairs of some layers are switched on."""
    on = set(chain.from_iterable(layer.sites for layer in layers))
    return {site: None for site in switches.all_float if site not in on}


@dataclass(frozen=True, slots=True, eq=False)
class MetricRuns:
    """A task metric on samples with labels, in the session of a masked model.

    Samples are read again for each setting, so that any number of samples fits into memory.
    """

    measure: Measure
    runs: MaskedRuns
    feeds: Feeds

    @classmethod
    def of(cls, metric: RequestedMetric, runs: MaskedRuns, feeds: Feeds) -> "MetricRuns":
        """Return the metric for the outputs of a model, and add labels to the samples."""
        return cls(metric.measure(runs.all_outputs), runs, labelled_for(metric, feeds))

    def first(self, count: int) -> "MetricRuns":
        """Return this metric on the first samples."""
        return MetricRuns(self.measure, self.runs, self.feeds.first(count))

    def score(self, setting: Setting, model: str) -> Score:
        """Return the metric with some pairs switched.

        Args:
            setting: Which pairs are switched.
            model: The name of the model in messages, such as ``the float model``.
        """
        return score_of(self.measure, self.runs.run_all(setting, self.feeds), model)

    def score_float(self) -> Score:
        """Return the metric of the float model; errors as :meth:`score`."""
        return self.score(self.runs.switches.all_float, "the float model")
