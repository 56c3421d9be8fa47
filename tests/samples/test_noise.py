"""Random feeds are seeded, fit the model, and index no table beyond its end."""

import itertools

import numpy as np
import pytest
from onnx import TensorProto, helper
from support.qdq import LOOP_AND_BRANCHES, text_model
from support.small import make_model, matmul_model

from qdqtool.errors import UsageError
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.model import Model
from qdqtool.samples.feeds import Feeds
from qdqtool.samples.noise import random_feeds
from qdqtool.samples.signature import input_specs, with_shapes


def random_for(
    model: Model, shapes: dict[str, tuple[int, ...]] | None = None, seed: int = 0, samples: int | None = None
) -> Feeds:
    specs = with_shapes(input_specs(model), shapes or {})
    return random_feeds(ModelIndex.of(model), specs, seed=seed, samples=samples)


def of_type(elem_type: int, shape: tuple[int | str | None, ...] | None = (1000,)) -> Model:
    """x -> Identity -> y."""
    graph = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", elem_type, shape)],
        [helper.make_tensor_value_info("y", elem_type, shape)],
    )
    return Model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))


def drawn(model: Model, shapes: dict[str, tuple[int, ...]] | None = None) -> np.ndarray:
    """Every value of ``x`` in all samples."""
    return np.concatenate([sample["x"].ravel() for sample in random_for(model, shapes)])


def test_the_same_seed_gives_the_same_samples_and_another_seed_others() -> None:
    model = Model(matmul_model())
    first, again, other = (random_for(model, seed=seed) for seed in (3, 3, 4))
    bits = [[sample["x"].tobytes() for sample in feeds] for feeds in (first, again, other)]
    assert bits[0] == bits[1] != bits[2]
    assert len(set(bits[0])) == len(first) == 4
    assert (first.description.source, first.description.seed) == ("random", 3)


def test_batch_dimensions_are_one_wherever_their_name_stands() -> None:
    nodes = [helper.make_node("Identity", ["a"], ["y"]), helper.make_node("Identity", ["b"], ["z"])]
    model = make_model(nodes, {"a": ("n", 3), "b": (2, "n", 4)}, {"y": ("n", 3), "z": (2, "n", 4)}, {})
    assert random_for(Model(model)).description.shapes == {"a": (1, 3), "b": (2, 1, 4)}


def test_other_open_dimensions_ask_for_the_option() -> None:
    nodes = [helper.make_node("Identity", ["a"], ["y"])]
    model = Model(make_model(nodes, {"a": ("n", 3, "h", "w")}, {"y": ("n", 3, "h", "w")}, {}))
    with pytest.raises(UsageError, match="open dimensions") as caught:
        random_for(model)
    assert "`--input-shapes a:1x3x224x224`" in (caught.value.hint or "")
    assert random_for(model, {"a": (2, 3, 5, 6)}).description.shapes == {"a": (2, 3, 5, 6)}


def test_integers_stay_inside_the_tables_that_they_index() -> None:
    nodes = [
        helper.make_node("Cast", ["ids"], ["wide"], to=TensorProto.INT64),
        helper.make_node("Gather", ["table", "wide"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("ids", TensorProto.INT32, [1000])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1000, 2])],
        [helper.make_tensor("table", TensorProto.FLOAT, [3, 2], [0.0] * 6)],
    )
    model = Model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))
    values = np.concatenate([sample["ids"] for sample in random_for(model)])
    assert (values.dtype, set(values.tolist())) == (np.int32, {0, 1, 2})


def test_scalars_booleans_and_integers_are_drawn() -> None:
    samples = list(random_for(text_model(LOOP_AND_BRANCHES)))
    assert {sample["c"].dtype for sample in samples} == {np.dtype(bool)}
    assert all(0 <= int(sample["n"]) < 10 for sample in samples)


def test_a_sample_depends_on_the_seed_and_its_number_and_not_on_how_many_there_are() -> None:
    model = Model(matmul_model())
    few, many = (list(random_for(model, samples=samples)) for samples in (2, 7))
    assert len(many) == 7
    for one, other in zip(few, many, strict=False):
        np.testing.assert_array_equal(one["x"], other["x"])


@pytest.mark.parametrize("elem_type", [TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE])
def test_floats_are_standard_normal(elem_type: int) -> None:
    values = drawn(of_type(elem_type))
    assert values.dtype == helper.tensor_dtype_to_np_dtype(elem_type)
    assert abs(values.mean()) < 0.1
    assert values.std() == pytest.approx(1, abs=0.1)


@pytest.mark.parametrize(
    ("elem_type", "low", "high"),
    [
        (TensorProto.INT64, 0, 9),
        (TensorProto.UINT32, 0, 9),
        (TensorProto.INT8, -128, 127),
        (TensorProto.UINT8, 0, 255),
        (TensorProto.BOOL, 0, 1),
    ],
)
def test_integers_take_their_whole_range(elem_type: int, low: int, high: int) -> None:
    values = drawn(of_type(elem_type, (3000,)))
    assert (values.min(), values.max()) == (low, high)


def test_complex_numbers_have_both_parts() -> None:
    values = drawn(of_type(TensorProto.COMPLEX64))
    assert values.dtype == np.complex64
    assert values.real.std() == pytest.approx(1, abs=0.1)
    assert values.imag.std() == pytest.approx(1, abs=0.1)


GATHERED = """
<ir_version: 10, opset_import: ["": 17, "com.microsoft": 1, "my": 1]>
g (int64[40] x) => (float[a] y, float[b] z)
<float[7, 3] rows = {0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0}, int64[2] wide = {8, 5}>
{
  %s
}
"""


@pytest.mark.parametrize(
    ("nodes", "largest"),
    [
        ("y = Gather (rows, x)", 6),
        ("y = Gather <axis = 1> (rows, x)", 2),
        ("y = Gather <axis = -1> (rows, x)", 2),
        ("y = com.microsoft.GatherBlockQuantized (rows, x, s)", 6),
        ("y = com.microsoft.GatherBlockQuantized <gather_axis = 1, quantize_axis = 0> (rows, x, s)", 2),
        ("y = my.GatherBlockQuantized (rows, x, s)", 9),
        ("y = Gather (rows, x)\n  z = Gather <axis = 1> (rows, x)", 2),
        ("w = Reshape (x, wide)\n  t = Transpose (w)\n  y = Gather (rows, t)", 6),
        ("w = Reshape (x, wide)\n  y = GatherElements <axis = 1> (rows, w)", 2),
        ("n = Neg (x)\n  y = Gather (rows, n)", 9),
        ("y = Gather (x, x)", 39),
    ],
    ids=itertools.count(),
)
def test_the_smallest_table_on_the_way_of_an_index_limits_it(nodes: str, largest: int) -> None:
    assert drawn(text_model(GATHERED % nodes)).max() == largest


def test_an_input_of_unknown_rank_asks_for_its_shape() -> None:
    model = of_type(TensorProto.FLOAT, None)
    with pytest.raises(UsageError, match="input 'x' has no shape in the model") as caught:
        random_for(model)
    assert "`--input-shapes x:1x128`" in (caught.value.hint or "")
    assert drawn(model, {"x": (2, 5)}).size == 4 * 10


def test_a_first_dimension_without_a_name_is_a_batch_too() -> None:
    assert random_for(of_type(TensorProto.FLOAT, (None, 3))).description.shapes == {"x": (1, 3)}


def test_a_dimension_with_batch_in_its_name_is_one_on_any_axis() -> None:
    assert random_for(of_type(TensorProto.FLOAT, (3, "my_Batch"))).description.shapes == {"x": (3, 1)}
