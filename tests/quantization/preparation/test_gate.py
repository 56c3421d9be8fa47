"""The gate on preparation sees what a saturated output hides, and takes factors into account."""

from pathlib import Path

import numpy as np
import pytest
from support.small import make_model, nodes_of

from qdqtool.models.graph.model import Model
from qdqtool.quantization.calibration_report import GATE_LIMIT
from qdqtool.quantization.preparation.gate import HALF_GATE_LIMIT, PreparationGate, gate_limit
from qdqtool.quantization.preparation.step import ProposedChange
from qdqtool.quantization.statistics.float_runs import FloatRuns
from qdqtool.samples.feeds import Feeds, load_feeds
from qdqtool.samples.signature import input_specs

RNG = np.random.default_rng(0)
FIRST, SECOND = RNG.normal(size=(8, 6)).astype(np.float32), RNG.normal(size=(6, 3)).astype(np.float32)


def network(first: np.ndarray = FIRST, second: np.ndarray = SECOND) -> Model:
    """Two products and a Softmax that gives 1, 0 and 0, whatever comes in."""
    nodes = nodes_of("m = MatMul (x, v)  r = Relu (m)  n = MatMul (r, w)  s = Add (n, b)  y = Softmax (s)")
    constants = {"v": first.astype(np.float32), "w": second.astype(np.float32), "b": np.float32([9000, 0, 0])}
    return Model(make_model(nodes, {"x": ("N", 8)}, {"y": ("N", 3)}, constants))


@pytest.fixture
def feeds(tmp_path: Path) -> Feeds:
    np.savez(tmp_path / "d.npz", x=RNG.normal(size=(4, 8)).astype(np.float32))
    return load_feeds(tmp_path / "d.npz", input_specs(network()))


def difference(change: ProposedChange, feeds: Feeds) -> float:
    given = network()
    with FloatRuns() as runs:
        return PreparationGate(given, feeds, runs).difference(given, change)


def test_nothing_changed_is_no_difference(feeds: Feeds) -> None:
    assert difference(ProposedChange(model=network()), feeds) == 0


def test_a_change_that_the_output_hides_is_measured_where_products_read(feeds: Feeds) -> None:
    assert difference(ProposedChange(model=network(first=FIRST * np.float32(1.01))), feeds) == pytest.approx(
        0.01, rel=1e-3
    )


def test_channels_that_a_change_divides_are_compared_without_their_factors(feeds: Feeds) -> None:
    factors = np.array([1, 3, 0.5, 7, 1.3, 2.0])
    model = network(FIRST / factors, SECOND * factors[:, None])
    assert difference(ProposedChange(model=model, rescaled={((), "r"): factors}), feeds) < GATE_LIMIT
    assert difference(ProposedChange(model=model, rescaled={((), "r"): 1.01 * factors}), feeds) > 0.009


def test_the_limit_is_wider_where_weights_are_float16() -> None:
    half = network()
    assert gate_limit(half) == GATE_LIMIT
    for tensor in half.proto.graph.initializer:
        tensor.data_type = 10
    assert gate_limit(half) == HALF_GATE_LIMIT
