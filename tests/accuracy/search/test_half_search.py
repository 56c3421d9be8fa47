"""The nodes that stay float32 for a limit: few, enough, and found with few measurements."""

import math

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import parser

from qdqtool.accuracy.report import Accuracy
from qdqtool.accuracy.search.half_search import PROBES, HalfRequest, convert_within, find_kept
from qdqtool.models.graph.model import Model
from qdqtool.models.options import HalfType
from qdqtool.models.transforms.half import NodeId
from qdqtool.numerics.dtypes import Array
from qdqtool.quantization.statistics.float_runs import FloatRuns
from qdqtool.samples.in_memory import hold_data
from qdqtool.samples.request import FileData, open_feeds
from qdqtool.samples.split import MeasuringData


class Noisy:
    """A model whose nodes add their noise; it counts the measurements."""

    def __init__(self, noise: list[float]) -> None:
        self.nodes: list[NodeId] = [((), (f"n{number}",)) for number in range(len(noise))]
        self.noise = dict(zip(self.nodes, noise, strict=True))
        self.probes = 0

    def __call__(self, kept: frozenset[NodeId]) -> float:
        self.probes += 1
        total = math.fsum(value for node, value in self.noise.items() if node not in kept)
        return -10 * math.log10(total) if 0 < total < math.inf else -math.inf if total else math.inf


def kept_of(noise: list[float], limit_db: float) -> tuple[list[int], Noisy]:
    model = Noisy(noise)
    kept, worst = find_kept(model.nodes, limit_db, model)
    assert worst == model(kept) >= limit_db
    return [number for number, node in enumerate(model.nodes) if node in kept], model


def test_one_node_with_noise_is_found_among_many_with_few_measurements() -> None:
    kept, model = kept_of([1e-9] * 300 + [1e-2] + [1e-9] * 700, 40)
    assert kept == [300]
    assert model.probes <= 8 + 2 * 8 + 2


@pytest.mark.parametrize("loss", [math.inf, 1e3])
def test_nodes_that_overflow_are_found_wherever_they_are(loss: float) -> None:
    kept, _ = kept_of([1e-8] * 5 + [loss] + [1e-8] * 60 + [loss] + [1e-8] * 3, 40)
    assert kept == [5, 66]


def test_evenly_spread_noise_is_not_divided_for_ever() -> None:
    kept, model = kept_of([0.99e-4 / 250] * 1000, 40)
    assert 750 <= len(kept) <= 780
    assert model.probes <= 3 * PROBES


@settings(max_examples=30, deadline=None)
@given(st.lists(st.sampled_from([0.0, 1e-9, 1e-6, 1e-4, 1e-2, math.inf]), min_size=1, max_size=40))
def test_the_result_keeps_the_limit_and_no_node_without_noise_that_stands_alone(noise: list[float]) -> None:
    kept, _ = kept_of(noise, 40)
    if max(noise) <= 1e-6:
        assert kept == []
    assert all(number in kept for number, value in enumerate(noise) if value > 1e-3)


TEXT = """<ir_version: 10, opset_import: ["": 21]>
g (float[1, 8] x) => (float[1, 8] y) <float offset = {1000.0}> {
  a = Tanh (x) b = Add (a, offset) c = Sub (b, offset) d = Sigmoid (c) y = Tanh (d) }"""


def converted(text: str, limit_db: float | None) -> tuple[Accuracy, set[str]]:
    model = Model(parser.parse_model(text))
    rng = np.random.default_rng(1)
    samples: list[dict[str, Array]] = [{"x": rng.normal(size=(1, 8)).astype(np.float32)} for _ in range(10)]
    feeds = open_feeds(model, FileData(path=hold_data(samples)))
    request = HalfRequest(half=HalfType.FP16, limit_db=limit_db, is_default=False, measured={}, refuse=lambda _: "")
    with FloatRuns(optimized=False) as runs:
        chosen, other = MeasuringData(feeds=feeds.first(6)), MeasuringData(feeds=feeds.only(range(6, 10)))
        found = convert_within(model, request, chosen, other, runs)
    written = request.convert(model, found.kept).model.proto
    onnx.checker.check_model(written, full_check=True)
    return found.accuracy, {name for _, (name,) in found.kept}


def test_a_difference_of_close_numbers_stays_float32_with_the_node_in_front() -> None:
    """float16 has steps of 0.5 at 1000: what the Sub reads is lost already."""
    accuracy, kept = converted(TEXT, 40)
    assert kept == {"b", "c"}
    assert accuracy.outputs[0].sqnr_db is not None
    assert accuracy.outputs[0].sqnr_db > 50
    loose, none = converted(TEXT, None)
    assert none == set()
    assert loose.outputs[0].sqnr_db is not None
    assert loose.outputs[0].sqnr_db < 30


def test_without_a_limit_outputs_must_be_finite() -> None:
    """exp(12) has no float16, and nothing was measured."""
    text = TEXT.replace("b = Add (a, offset) c = Sub (b, offset)", "k = Mul (a, large) b = Exp (k) c = Div (b, b)")
    accuracy, kept = converted(text.replace("<float offset = {1000.0}>", "<float large = {20.0}>"), None)
    assert accuracy.outputs[0].finite
    assert "b" in kept
