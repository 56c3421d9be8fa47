"""One step of preparing a float model: it changes weights; outputs change by rounding only."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar

from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.model import Model
from qdqtool.models.transforms.taps import TensorKey
from qdqtool.numerics.product import Factors
from qdqtool.quantization.calibration_report import Site
from qdqtool.quantization.planning.options import Preparation
from qdqtool.quantization.planning.placement import ProposedSlot
from qdqtool.quantization.statistics.channel_statistics import ChannelData

Slots = Callable[[ModelIndex], Sequence[ProposedSlot]]
"""Returns the proposed slots of pairs in a float model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposedChange:
    """The change that a step proposes for a model.

    Attributes:
        model: The changed model.
        parameters: The JSON values with which the step repeats the same change without data.
        done: Places that change.
        left: Places of the same kind that do not change.
        rescaled: Factors that divide the channels of inputs of products.
        on_trial: Whether the change is kept only if it improves the quantized model.
        rehearsals: Functions that each make the change from one part of the samples, so that the other parts can judge
            it. Empty if no data decides, or if there is one part.
    """

    model: Model
    parameters: Mapping[str, Any] = field(default_factory=dict)
    done: tuple[Site, ...] = ()
    left: tuple[Site, ...] = ()
    rescaled: Mapping[TensorKey, Factors] = field(default_factory=dict)
    on_trial: bool = False
    rehearsals: "tuple[Callable[[], ProposedChange], ...]" = ()


@dataclass(frozen=True, slots=True)
class StepRequest:
    """The options that decide which steps are carried out, and how.

    Attributes:
        asked: The options of the user.
        integer_activations: Whether activations are quantized to integers, so that all channels of a tensor have the
            same step. Floating-point codes represent small channels precisely even if others are large.
        slots: Returns the slots of pairs; None to try nothing on the quantized model.
        few_bits: Whether weights get few bits, and codes that are chosen with data.
    """

    asked: Preparation
    integer_activations: bool = True
    slots: Slots | None = None
    few_bits: bool = False


class PreparationMethod(ABC):
    """A preparation step. Each module of :mod:`qdqtool.quantization.preparation.steps` has one, with the name ``STEP``.

    Attributes:
        order: Steps run in ascending order of this number, which is unique.
        thing: The name in reports of the thing that the step changes: ``layer``.
        done: The name of the change: ``equalized``.
        doing: The change as words in a message: ``equalizing the model``.
        off: The options that disable the step; empty if there are none.
        rescales_tensors: Whether inner tensors have other values afterwards: ranges of the given model no longer fit.
        refused_parameters: Parameters that a ranges file records if a trial refused the step.
    """

    order: ClassVar[int]
    thing: ClassVar[str]
    done: ClassVar[str]
    doing: ClassVar[str] = ""
    off: ClassVar[str] = ""
    rescales_tensors: ClassVar[bool] = False
    refused_parameters: ClassVar[Mapping[str, Any]] = MappingProxyType({})

    @property
    def name(self) -> str:
        """Public id of the step, in reports and ranges files: the name of its module."""
        return type(self).__module__.rpartition(".")[2]

    def is_asked(self, request: StepRequest) -> bool:
        """Return whether the step is to be carried out."""
        return self.is_allowed(request.asked)

    def disagreement(self, asked: Preparation, *, made: bool) -> str:
        """Return why ranges cannot be used with these options; empty if they can."""
        if made and not self.is_allowed(asked):
            return f"the ranges were found after {self.doing}, but {self.off} is given"
        return ""

    def is_allowed(self, asked: Preparation) -> bool:
        """Return whether the options allow the step; a step without an option is always allowed."""
        del asked
        return True

    def changes(self, model: Model, data: ChannelData, request: StepRequest) -> Iterator[ProposedChange]:
        """Propose changes, the best first; a later one is used only if all before it fail the trial or the gate.

        There is at least one; its ``done`` is empty if there is nothing to do. This default is for steps without data.
        """
        del data, request
        yield self.replay(model, {})

    @abstractmethod
    def replay(self, model: Model, parameters: Mapping[str, Any]) -> ProposedChange:
        """Carry out a recorded change again, without data.

        Args:
            model: The float model; it is not changed.
            parameters: The parameters of the :class:`ProposedChange` that was recorded.
        """
