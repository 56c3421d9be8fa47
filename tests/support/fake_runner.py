"""A runner without a library: outputs, times and layers as a test gives them."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Self

import numpy as np

from qdqtool.engines.gpu.runner import LayerTime
from qdqtool.samples.signature import InputSpec

IMAGE = InputSpec("x", np.dtype(np.float32), (1, 3))


@dataclass
class FakeRunner:
    """A runner of one input and one output.

    Attributes:
        compute: The outputs of a sample.
        times: The times that it gives, one after the other.
        layers: Its layers.
        calls: What was asked of it, in order; it may be shared with another runner.
        name: What it is called in ``calls``.
    """

    compute: Callable[[Mapping[str, np.ndarray]], dict[str, np.ndarray]] = lambda sample: {"y": 2 * sample["x"]}
    times: Iterable[float] = ()
    layers: tuple[LayerTime, ...] = ()
    calls: list[tuple] = field(default_factory=list)
    name: str = ""
    inputs: tuple[InputSpec, ...] = (IMAGE,)
    outputs: tuple[str, ...] = ("y",)
    library: str = "tensorrt-rtx"
    version: str = "1.7.1"
    clock: str = "gpu"

    def __post_init__(self) -> None:
        self._times = iter(self.times)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.calls.append((self.name, "close"))

    def example_inputs(self) -> tuple[InputSpec, ...]:
        return self.inputs

    def run(self, sample: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        self.calls.append((self.name, "run"))
        assert {name: array.dtype for name, array in sample.items()} == {each.name: each.dtype for each in self.inputs}
        return self.compute(sample)

    def time(self, sample: Mapping[str, np.ndarray], *, warm_up: int, runs: int) -> list[float]:
        assert {name: array.dtype for name, array in sample.items()} == {each.name: each.dtype for each in self.inputs}
        self.calls.append((self.name, "time", warm_up, runs))
        return [next(self._times) for _ in range(runs)]

    def profile(self, sample: Mapping[str, np.ndarray], *, runs: int) -> tuple[LayerTime, ...]:
        del sample
        self.calls.append((self.name, "profile", runs))
        return self.layers
