"""Run a masked model on samples, and compare its outputs with those of the float model."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np

from qdqtool.accuracy.layers.masked_model import Setting
from qdqtool.accuracy.layers.output_noise import OutputNoise, noise_of
from qdqtool.errors import CapabilityError, ModelError
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.model import Model
from qdqtool.models.running.accumulated_error import AccumulatedError
from qdqtool.models.running.ort_cpu import Profile
from qdqtool.models.running.own_evaluator import ModelSession, open_session
from qdqtool.models.running.own_support import plan_split
from qdqtool.numerics.dtypes import Array
from qdqtool.samples import Sample

Outputs = Mapping[str, Array]
"""The float outputs of one run, by name."""

Errors = Mapping[str, AccumulatedError]
"""The error of each float output over some samples, by name."""


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """What one setting does to the outputs.

    Attributes:
        errors: The error of each output over all samples, by name.
        noise: Signal and noise of each output on each sample.
    """

    errors: Errors
    noise: OutputNoise


class Switches(Protocol):
    """A model whose pairs can be switched by inputs that it has besides its own."""

    @property
    def model(self) -> Model:
        """The model."""
        ...

    @property
    def all_float(self) -> Setting:
        """The setting with every pair switched off; its keys are the numbers of the pairs."""
        ...

    def feeds(self, setting: Setting) -> dict[str, Array]:
        """Return the arrays of the inputs that switch pairs, for the pairs that are not as in the plan."""
        ...


class MaskedRuns:
    """One session of a masked model, with the samples that it runs. A context manager.

    The session has ONNX Runtime's optimizations, but those that would change a Q or DQ; none where it refuses its own
    result. Outputs are compared with those of the same session with every pair switched off, so nothing but the pairs
    makes a difference.

    Args:
        masked: The model.
        samples: The samples; they are kept in memory.

    Attributes:
        samples: As given.
        runs: How many samples were run so far, those with every pair switched off included.

    Raises:
        CapabilityError: ONNX Runtime is not installed, or cannot run the model.
        ModelError: ONNX Runtime refuses the model.
    """

    def __init__(self, masked: Switches, samples: Sequence[Mapping[str, Array]]) -> None:
        self.samples = samples
        self.runs = 0
        self._masked = masked
        index = ModelIndex.of(masked.model)
        main = index.view.main
        self._names = [name for name in main.output_names() if index.is_float(main.values[name])]
        self._all_names = main.output_names()
        self._session = _opened(index)
        self._expected: dict[int, Outputs] = {}
        self._tick: Callable[[int], None] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._session.close()

    def watch(self, tick: Callable[[int], None]) -> None:
        """Call ``tick`` in front of every run of a sample from now on, with the number of runs so far."""
        self._tick = tick

    @property
    def all_outputs(self) -> Sequence[str]:
        """Names of all outputs of the model, float or not."""
        return self._all_names

    @property
    def outputs(self) -> Sequence[str]:
        """Names of the float outputs of the model."""
        return self._names

    def run(self, setting: Setting, number: int) -> Outputs:
        """Return the float outputs of one sample with some pairs switched."""
        return self._run(self._masked.feeds(setting), number)

    def run_all(self, setting: Setting, samples: Iterable[Sample]) -> Iterator[tuple[Sample, Outputs]]:
        """Yield other samples with all outputs of the model, float or not, with some pairs switched."""
        fed = self._masked.feeds(setting)
        for sample in samples:
            self.runs += 1
            yield sample, self._session.run({**sample, **fed}, self._all_names)

    def expected(self, number: int) -> Outputs:
        """Return the float outputs of one sample with every pair switched off."""
        if number not in self._expected:
            found = self.run(self._masked.all_float, number)
            # copy(): one array of a session keeps all memory of the run alive.
            self._expected[number] = {name: array.copy() for name, array in found.items()}
        return self._expected[number]

    def errors(self, setting: Setting, numbers: Sequence[int] | None = None) -> Errors:
        """Return the errors of the outputs over some samples.

        Args:
            setting: Which pairs are switched.
            numbers: Numbers of the samples; None for all.

        Raises:
            RunError: A node fails on a sample.
        """
        return self.measure(setting, numbers).errors

    def noise(self, setting: Setting, numbers: Sequence[int] | None = None) -> OutputNoise:
        """Return signal and noise of the outputs on each sample; arguments and errors as :meth:`errors`."""
        return _joined([_noise_of(*pair) for pair in self._pairs(setting, numbers)])

    def measure(self, setting: Setting, numbers: Sequence[int] | None = None) -> Measured:
        """Return both in one pass; arguments and errors as :meth:`errors`."""
        errors, rows = {name: AccumulatedError() for name in self._names}, list[tuple[Array, Array]]()
        for expected, found in self._pairs(setting, numbers):
            rows.append(_noise_of(expected, found))
            for name, error in errors.items():
                error.add(expected[name], found[name])
        return Measured(errors, _joined(rows))

    def _pairs(self, setting: Setting, numbers: Sequence[int] | None) -> Iterator[tuple[Outputs, Outputs]]:
        fed = self._masked.feeds(setting)
        for number in range(len(self.samples)) if numbers is None else numbers:
            yield self.expected(number), self._run(fed, number)

    def _run(self, fed: Mapping[str, Array], number: int) -> Outputs:
        if self._tick is not None:
            self._tick(self.runs)
        self.runs += 1
        return self._session.run({**self.samples[number], **fed}, self._names)


def _noise_of(expected: Outputs, found: Outputs) -> tuple[Array, Array]:
    return noise_of(list(expected.values()), list(found.values()))


def _joined(rows: Sequence[tuple[Array, Array]]) -> OutputNoise:
    return OutputNoise(np.array([signal for signal, _ in rows]), np.array([noise for _, noise in rows]))


def _opened(index: ModelIndex) -> ModelSession:
    split = plan_split(index)
    # ONNX Runtime 1.31.1 fuses a Pad into the MaxPool behind it, and then refuses pads that are not below the kernel.
    with suppress(ModelError, CapabilityError):
        return open_session(index.model, split, Profile.OPTIMIZED)
    return open_session(index.model, split)
