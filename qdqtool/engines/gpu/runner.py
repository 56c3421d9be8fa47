"""The interface of a runner: an engine on the GPU, independent of the library that runs it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol, Self

from qdqtool.numerics.dtypes import Array
from qdqtool.samples.signature import InputSpec

Clock = Literal["gpu", "host"]
"""The clock that measures times: events on the GPU exclude copies, and the processor's clock includes them."""


@dataclass(frozen=True, slots=True)
class LayerTime:
    """The time that one layer takes in the profile of an engine.

    Attributes:
        name: The library's name for it.
        nodes: The ONNX nodes that the layer computes, in the parser's spelling; empty if unknown.
        milliseconds: Mean time of one inference.
    """

    name: str
    nodes: tuple[str, ...]
    milliseconds: float


def with_nodes(layers: Sequence[LayerTime], nodes: Mapping[str, tuple[str, ...]]) -> tuple[LayerTime, ...]:
    """Return the layers; a layer without ONNX nodes gets the nodes that ``nodes`` lists under its name."""
    return tuple(layer if layer.nodes else replace(layer, nodes=nodes.get(layer.name, ())) for layer in layers)


class Runner(Protocol):
    """An engine that is loaded on the GPU. A context manager that frees the memory of the GPU."""

    library: str
    """Public id of the library that runs the engine: ``tensorrt``, ``tensorrt-rtx`` or ``onnxruntime``."""
    version: str
    """Version of that library."""
    clock: Clock
    """The clock of :meth:`time`."""
    inputs: tuple[InputSpec, ...]
    """Its inputs with name, type and shape; a dynamic extent is None."""
    outputs: tuple[str, ...]
    """The names of its outputs, in order."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def example_inputs(self) -> tuple[InputSpec, ...]:
        """Return the inputs with the shapes that the engine was optimized for; all extents must be known."""

    def run(self, sample: Mapping[str, Array]) -> dict[str, Array]:
        """Run one sample.

        Args:
            sample: An array for each input, with the type and rank of :attr:`inputs`.

        Returns:
            The outputs by name.
        """

    def time(self, sample: Mapping[str, Array], *, warm_up: int, runs: int) -> list[float]:
        """Run one sample repeatedly.

        Returns:
            The time of each inference after the warm-up, in milliseconds.
        """

    def profile(self, sample: Mapping[str, Array], *, runs: int) -> tuple[LayerTime, ...]:
        """Measure the layers of the engine; times include the cost of the measurement.

        Returns:
            The layers in the order in which they run; empty if the library does not report them.
        """
