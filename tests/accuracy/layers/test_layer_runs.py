"""The session of a planned model: its limits, and what it measures of kinds of pairs."""

import math
from dataclasses import replace
from pathlib import Path

import pytest
from onnx import TensorProto, helper
from support.layered import MAX, chain, planned, rows, save

from qdqtool.accuracy.layers.layer import nodes_of
from qdqtool.accuracy.layers.layer_runs import FEW, LEAST_RUNS, RUNS_PER_SAMPLE, SAMPLES, LayerRuns
from qdqtool.quantization.planning.placement import Selection


@pytest.mark.parametrize(
    ("depth", "count", "limit"), [(2, 60, 48 * RUNS_PER_SAMPLE), (6, 12, 8 * RUNS_PER_SAMPLE), (6, 3, 6 * LEAST_RUNS)]
)
def test_the_limit_grows_with_the_samples_or_with_the_layers(tmp_path: Path, depth: int, count: int, limit: int):
    save(tmp_path, chain(depth), rows(count=count))
    with planned(tmp_path) as made, LayerRuns.of(made.ready, made.plan, made.prepared, made.choosing) as session:
        search = session.search()
        assert search.limit == limit
        assert len(session.runs.samples) == min(SAMPLES, len(session.feeds))
        assert search.few == min(FEW, len(session.feeds))
        assert sum(session.shares) == pytest.approx(1)


def test_kinds_of_pairs_are_switched_apart(tmp_path: Path):
    save(tmp_path, chain(3), rows())
    with planned(tmp_path) as made, LayerRuns.of(made.ready, made.plan, made.prepared, made.choosing, 2) as session:
        kinds = [session.of_kind(constants=each) for each in (True, False)]
        assert sorted([*kinds[0], *kinds[1]]) == list(range(6))
        tensors = [{session.masked.sites[site].placement.slot.tensor for site in kind} for kind in kinds]
        assert tensors == [{"w0", "w1", "w2"}, {"x", "r0", "r1"}]
        whole, parts = session.worst_db({}), [session.worst_db(kind) for kind in kinds]
        assert min(parts) > whole - 1
        assert session.worst_db(session.masked.all_float) == math.inf
        assert [node.label for node in nodes_of(session.layers[1:])] == ["m1", "m2"]


def test_an_output_that_is_zero_everywhere_is_left_out(tmp_path: Path):
    """The difference of a product that is quantized and the same product in float: nothing but noise."""
    model = chain(2)
    model.graph.node.append(helper.make_node("MatMul", ["x", "w0"], ["again"], name="again"))
    model.graph.node.append(helper.make_node("Sub", ["a0", "again"], ["z"], name="sub"))
    model.graph.output.append(helper.make_tensor_value_info("z", TensorProto.FLOAT, (4, 16)))
    save(tmp_path, model, rows())
    recipe = replace(MAX, selection=Selection(nodes_to_exclude=("again",)))
    with (
        planned(tmp_path, recipe) as made,
        LayerRuns.of(made.ready, made.plan, made.prepared, made.choosing) as session,
    ):
        noise = session.runs.noise({})
        assert noise.signal.sum(axis=0).tolist()[1] == 0
        assert noise.noise.sum(axis=0).tolist()[1] > 0
        assert session.worst_db({}) == noise.sqnr_db()[0] < math.inf
        assert session.search().reach(30.0).shortfall_db == 0
