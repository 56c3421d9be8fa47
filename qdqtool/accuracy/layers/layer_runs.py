"""Open the search for float layers, or the measurement of layers, for a planned model."""

import hashlib
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

from qdqtool.accuracy.layers.fallback import NO_FALLBACK, Fallback, FormatBits, SecondaryPlan, fallback_of
from qdqtool.accuracy.layers.layer import Layer, by_reader, costs_of, layers_of, shares
from qdqtool.accuracy.layers.masked_model import MaskedModel, Setting, mask_model, with_alternatives
from qdqtool.accuracy.layers.masked_runs import MaskedRuns
from qdqtool.accuracy.layers.noise_file import NoiseCache, read_noise, write_noise
from qdqtool.accuracy.layers.search import FloatSearch
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.io.model_file import model_digest
from qdqtool.models.graph.model import Model
from qdqtool.models.plan import QuantPlan
from qdqtool.models.running.ort_cpu import reference
from qdqtool.numerics.dtypes import Array
from qdqtool.quantization.planning.plan_file import encode_plan
from qdqtool.quantization.preparation.bias_correction import switched_biases
from qdqtool.quantization.preparation.prepare import Prepared
from qdqtool.quantization.ranges.checkpoint import Interrupted
from qdqtool.results import __version__
from qdqtool.samples.feeds import Feeds
from qdqtool.samples.sample import sample_digest

SAMPLES, MOST_SAMPLES, FEW = 8, 32, 4
"""Number of samples on which a layer is measured, largest number on which a search compares states, and number on which
a search measures each layer alone.

A search with 8 samples on a face detector kept 0.7 dB less on test data than on its own samples. With 32 samples it
kept 0.2 dB less, with 3 layers in float instead of 5. With 2 as the last number, some searches on small networks missed
an accuracy target that can be reached."""

SHARE = 2
"""A search compares candidates on one in this many samples, within the limits above."""

RUNS_PER_SAMPLE = 36
"""Largest number of runs of single samples in a search, divided by the number of calibration samples. With 12, a search
on a MobileNetV3 ended 2.7 dB below its target. With 30 it reaches the target, in 1.1 times the time of `calibrate`."""

LEAST_RUNS = 20
"""Number of runs of single samples, for each layer, that a search may always take. About four measure the layer alone,
and the others allow two exact trials. With 6, searches on eight layers ended 1 to 8 dB below targets that can be
reached."""


@dataclass(slots=True, eq=False)
class LayerRuns:
    """A planned model with a switch at each pair, and the session that runs it. A context manager.

    Attributes:
        layers: The layers that are quantized or stay in float together.
        shares: The share of each layer in the cost of all layers.
        masked: The model.
        runs: Its session with a few samples.
        feeds: All samples; the session has a few of them.
        ready: The float model.
        plan: The pairs.
        cache: The measurements so far.
        fallback: The format between the plan's format and float.
    """

    layers: tuple[Layer, ...]
    shares: tuple[float, ...]
    masked: MaskedModel
    runs: MaskedRuns
    feeds: Feeds
    ready: Model
    plan: QuantPlan
    cache: NoiseCache = field(default_factory=dict)
    fallback: Fallback = NO_FALLBACK

    @classmethod
    def of(
        cls,
        ready: Model,
        plan: QuantPlan,
        prepared: Prepared,
        feeds: Feeds,
        count: int = SAMPLES,
        secondary: SecondaryPlan | None = None,
    ) -> Self:
        """Make the model and open the session.

        Args:
            ready: The model that the plan was made for.
            plan: The pairs.
            prepared: The same model, with the means that correct its biases.
            feeds: The selection samples.
            count: Number of these samples that are run.
            secondary: A plan for the same model in a fallback format; None without such a format.
        """
        index = ModelIndex.of(ready)
        divided = by_reader(plan, index)
        biases = switched_biases(ModelIndex.of(prepared.model), divided, prepared.means)
        masked, layers = mask_model(ready, divided, biases), layers_of(divided, index)
        costs, fallback = costs_of(layers, index), NO_FALLBACK
        if secondary is not None:
            secondary = replace(secondary, plan=by_reader(secondary.plan, index))
            fallback = fallback_of(divided, secondary, layers, costs, index)
            masked = with_alternatives(masked, fallback.placements)
        runs = MaskedRuns(masked, [dict(sample) for sample in feeds.first(count)])
        return cls(layers, shares(costs), masked, runs, feeds, ready, plan, fallback=fallback)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.runs.__exit__()

    def search(self) -> FloatSearch:
        """Return a search for the layers that stay in float."""
        levels = len(self.layers) + len(self.fallback.shares)
        limit = max(RUNS_PER_SAMPLE * len(self.feeds), LEAST_RUNS * levels)
        few = min(FEW, len(self.runs.samples))
        return FloatSearch(self.layers, self.shares, self.runs, few, limit, cache=self.cache, fallback=self.fallback)

    @contextmanager
    def kept_in(self, path: Path | None) -> Iterator[None]:
        """Use the earlier measurements in a file, and write all measurements to it at the end or at Ctrl-C.

        Args:
            path: The file, which need not exist; None to use no file.

        Raises:
            Interrupted: Ctrl-C.
        """
        if path is None:
            yield
            return
        measured_on = self._digest()
        if path.exists():
            self.cache.update(read_noise(path, measured_on))
        try:
            yield
        except KeyboardInterrupt:
            raise Interrupted(
                f"interrupted; {len(self.cache)} measurements are kept in {path}: the same command continues from there"
            ) from None
        finally:
            labels = [layer.leader.label for layer in self.layers]
            write_noise(path, measured_on, labels, list(self.runs.outputs), self.cache)

    def _digest(self) -> str:
        """Return a digest of everything that the measurements depend on, except the processor."""
        found = hashlib.sha256()
        for word in (__version__, reference(self.ready).version, model_digest(self.ready)):
            found.update(f"{word}\n".encode())
        for part in _bytes_of(self.plan):
            found.update(part)
        # The same samples whether layers or states are measured, so that each can use the measurements of the other.
        for sample in self.feeds.first(searched_samples(len(self.feeds))):
            found.update(sample_digest(sample))
        return found.hexdigest()

    def worst_db(self, setting: Setting) -> float:
        """Return the SQNR of the worst output with some pairs switched, in dB; infinite if no output has noise."""
        noise = self.runs.noise(setting)
        found: Array = noise.sqnr_db()[noise.active]
        return float(found.min(initial=math.inf))

    def of_kind(self, *, constants: bool) -> Setting:
        """Return the setting with all pairs of weights, or all pairs of activations, switched off."""
        sites = enumerate(self.masked.sites)
        return {number: None for number, site in sites if (site.constant is not None) is constants}


def searched_samples(samples: int) -> int:
    """Return the number of selection samples on which a search compares states."""
    return min(max(samples // SHARE, SAMPLES), MOST_SAMPLES)


def secondary_plan(name: str, plan: QuantPlan, bits: FormatBits) -> SecondaryPlan:
    """Return a plan in a fallback format, with a digest that identifies it."""
    found = hashlib.sha256()
    for part in _bytes_of(plan):
        found.update(part)
    return SecondaryPlan(name=name, digest=found.hexdigest()[:16], plan=plan, bits=bits)


def _bytes_of(plan: QuantPlan) -> Iterator[bytes]:
    """Yield bytes that differ for different plans."""
    for placement in plan:
        yield encode_plan(QuantPlan((placement,)))
        if placement.codes is not None:
            yield placement.codes.make()
