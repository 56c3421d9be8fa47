"""One step of preparing a float model: it changes weights and, up to rounding, no result."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from qdqtool.graph.model import Model
from qdqtool.numerics.product import Factors
from qdqtool.running.channel_statistics import ChannelData
from qdqtool.transforms.taps import TensorKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """One place that a step found.

    Attributes:
        name: The node or tensor.
        graph: Its scope; empty for the main graph.
        note: What was done there, or why nothing was.
    """

    name: str
    graph: str
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What a step would do to a model.

    Attributes:
        model: The model, changed.
        parameters: What the step needs to make the same change again without data: JSON values.
        done: Places that change.
        left: Places of the same kind that stay as they are.
        rescaled: Tensors that products read and whose channels are now divided by factors.
        on_trial: Whether it is made only if the quantized model keeps as much with it.
    """

    model: Model
    parameters: Mapping[str, Any] = field(default_factory=dict)
    done: tuple[Site, ...] = ()
    left: tuple[Site, ...] = ()
    rescaled: Mapping[TensorKey, Factors] = field(default_factory=dict)
    on_trial: bool = False


class Step(Protocol):
    """One step."""

    name: str

    def changes(self, model: Model, data: ChannelData) -> Iterator[Change]:
        """What the step would do, the best first: the next is asked for only where that changes an output.

        At least one, with ``done`` empty where the step would do nothing.

        Raises:
            UsageError: The model fails on a sample.
            CapabilityError: ONNX Runtime is not installed or cannot run the model.
        """
        ...

    def replay(self, model: Model, parameters: Mapping[str, Any]) -> Change:
        """The change that an earlier one of :meth:`changes` recorded.

        Raises:
            UsageError: The parameters are malformed, or do not fit the model.
        """
        ...
