"""Open the search for layers that stay in float, and the measurement of layers, for a model that is planned."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from qdqtool.data import Feeds
from qdqtool.graph.index.model_index import ModelIndex
from qdqtool.graph.index.view import NodeView
from qdqtool.graph.model import Model
from qdqtool.numerics.dtypes import Array
from qdqtool.plan import QuantPlan
from qdqtool.preparation.bias_correction import switched_biases
from qdqtool.preparation.prepare import Prepared
from qdqtool.sensitivity.costs import costs_of, shares
from qdqtool.sensitivity.masked_model import MaskedModel, Setting, mask_model
from qdqtool.sensitivity.masked_runs import MaskedRuns
from qdqtool.sensitivity.search import FloatSearch
from qdqtool.sensitivity.units import Unit, by_reader, units_of

SAMPLES, FEW = 8, 4
"""Largest number of samples that outputs are compared on, and of those that measure each layer alone."""

RUNS_PER_SAMPLE = 12
"""Runs of one sample that a search may take, for each calibration sample: so that it takes some 30 times as long as a
plain run of all samples at most."""

LEAST_RUNS = 6
"""Runs of one sample that a search may take at least, for each layer."""


@dataclass(slots=True, eq=False)
class LayerRuns:
    """A planned model with a switch at each pair, and the session that runs it. A context manager.

    Attributes:
        units: The layers that are quantized or stay in float together.
        shares: The share of each in the cost of all.
        masked: The model.
        runs: Its session with a few samples.
        samples: Number of samples of the data that they are from.
    """

    units: tuple[Unit, ...]
    shares: tuple[float, ...]
    masked: MaskedModel
    runs: MaskedRuns
    samples: int

    @classmethod
    def of(cls, ready: Model, plan: QuantPlan, prepared: Prepared, feeds: Feeds, count: int = SAMPLES) -> Self:
        """Make the model and open the session.

        Args:
            ready: The model that the plan was made for.
            plan: The pairs.
            prepared: The same model, with the means that correct its biases.
            feeds: Samples that may choose something.
            count: How many of them are run.

        Raises:
            CapabilityError: ONNX Runtime is not installed, or cannot run the model.
            ModelError: ONNX Runtime refuses the model.
        """
        index = ModelIndex.of(ready)
        divided = by_reader(plan, index)
        biases = switched_biases(ModelIndex.of(prepared.model), divided, prepared.means)
        masked, units = mask_model(ready, divided, biases), units_of(divided, index)
        runs = MaskedRuns(masked, [dict(sample) for sample in feeds.first(count)])
        return cls(units, shares(costs_of(units, index)), masked, runs, len(feeds))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.runs.__exit__(kind, error, trace)

    def search(self) -> FloatSearch:
        """Return a search for the layers that stay in float."""
        limit = max(RUNS_PER_SAMPLE * self.samples, LEAST_RUNS * len(self.units))
        few = min(FEW, len(self.runs.samples))
        return FloatSearch(self.units, self.shares, self.masked, self.runs, few, limit)

    def worst_db(self, setting: Setting) -> float:
        """Return the SQNR of the worst output with some pairs switched, in dB; infinite where no output has noise."""
        noise = self.runs.noise(setting)
        found: Array = noise.sqnr_db()[noise.signal.sum(axis=0) > 0]
        return float(found.min(initial=math.inf))

    def of_kind(self, *, constants: bool) -> Setting:
        """Return the setting with the pairs of weights, or those of activations, switched off."""
        sites = enumerate(self.masked.sites)
        return {number: None for number, site in sites if (site.constant is not None) is constants}


def nodes_of(units: Sequence[Unit]) -> tuple[NodeView, ...]:
    """Return the nodes of some units."""
    return tuple(node for unit in units for node in unit.nodes)
