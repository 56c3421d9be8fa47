"""Random feeds are seeded, fit the model and its ranges, and index no table beyond its end."""

import itertools

import numpy as np
import pytest
from onnx import TensorProto, helper
from support.qdq import LOOP_AND_BRANCHES, text_model
from support.small import conv_model, make_model, matmul_model, run

from qdqtool.errors import UsageError
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.model import Model
from qdqtool.samples.feeds import Feeds
from qdqtool.samples.input_shapes import parse_shapes
from qdqtool.samples.noise import random_feeds, shapes_hint
from qdqtool.samples.signature import input_specs, with_shapes


def random_for(
    model: Model, shapes: dict[str, tuple[int, ...]] | None = None, seed: int = 0, samples: int | None = None
) -> Feeds:
    specs = with_shapes(input_specs(model), shapes or {})
    return random_feeds(ModelIndex.of(model), specs, seed=seed, samples=samples)


def of_type(elem_type: int, shape: tuple[int | str | None, ...] | None = (1000,)) -> Model:
    """x -> Identity -> y."""
    nodes = [helper.make_node("Identity", ["x"], ["y"])]
    return Model(make_model(nodes, {"x": shape}, {"y": shape}, {}, elem_type=elem_type))


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
    model = text_model("""
        <ir_version: 8, opset_import: ["": 17]>
        g (int32[1000] ids) => (float[1000, 2] y) <float[3, 2] table = {0, 0, 0, 0, 0, 0}>
        { wide = Cast <to = 7> (ids)  y = Gather (table, wide) }
    """)
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


@pytest.mark.parametrize(("shape", "drawn_shape"), [((None, 3), (1, 3)), ((3, "my_Batch"), (3, 1))])
def test_a_first_dimension_without_a_name_and_any_named_batch_are_one(shape, drawn_shape) -> None:
    assert random_for(of_type(TensorProto.FLOAT, shape)).description.shapes == {"x": drawn_shape}


def conv(*dims: int | str | None):
    """The model, its input declared with these dimensions; without any its rank is unknown."""
    proto = conv_model()
    kind = proto.graph.input[0].type.tensor_type
    kind.ClearField("shape")
    for dim in dims:
        kind.shape.dim.add(**({"dim_value": dim} if isinstance(dim, int) else {"dim_param": dim} if dim else {}))
    proto.graph.output[0].type.tensor_type.ClearField("shape")
    return proto


def hint(proto, inputs, known=None, given=None) -> str:
    return shapes_hint(ModelIndex.of(Model(proto)), "--shapes", inputs, known or {}, given or {})


def example(proto, inputs, **known: int) -> str:
    return hint(proto, inputs, known).partition("`--shapes ")[2].rstrip("`")


@pytest.mark.parametrize(
    ("dims", "shape"),
    [(("n", "c", "h", "w"), "x:1x3x224x224"), ((2, None, "h", 16), "x:2x3x224x16"), (None, "x:1x3x224x224")],
)
def test_a_convolution_tells_rank_and_channels(dims, shape):
    proto = conv(*dims or ())

    assert example(proto, {"x": dims}) == shape
    x = np.zeros(parse_shapes([shape], "")["x"], np.float32)
    assert run(proto, {"x": x})[0].shape[0] == x.shape[0]


def test_a_matrix_product_behind_a_cast_tells_the_last_dimension():
    weights = {"w": np.ones((24, 6), np.float32)}
    nodes = [helper.make_node("Cast", ["x"], ["c"], to=1), helper.make_node("Gemm", ["c", "w"], ["y"])]
    proto = make_model(nodes, {"x": ("n", "k")}, {"y": ("n", 6)}, weights)

    assert example(proto, {"x": ("n", "k")}) == "x:1x24"


def test_a_symbol_has_one_size_everywhere_and_known_ones_are_kept():
    nodes = [helper.make_node("Identity", ["a"], ["y"]), helper.make_node("Identity", ["b"], ["z"])]
    inputs = {"a": ("n", "t"), "b": ("n", "t", "t", "t")}
    proto = make_model(nodes, inputs, {"y": ("n", "t"), "z": None}, {})

    assert example(proto, inputs) == "a:1x128,b:1x128x128x128"
    assert example(proto, inputs, n=4, t=7) == "a:4x7,b:4x7x7x7"


CACHED = """
<ir_version: 10, opset_import: ["": 21]>
g (float[n, s, 8] x, float[n, 1, s, t] mask, float[n, 2, p, 4] past) => (float[n, 2, s, t] y)
<int64[4] heads = {0, 0, 2, 4}>
{
  split = Reshape (x, heads)
  q = Transpose <perm = [0, 2, 1, 3]> (split)
  k = Concat <axis = 2> (past, q)
  kt = Transpose <perm = [0, 1, 3, 2]> (k)
  scores = MatMul (q, kt)
  y = Add (scores, mask)
}
"""
"""A mask for the cached and the new tokens together."""


@pytest.mark.parametrize("is_large", [False, True], ids=["run", "inferred"])
def test_sizes_of_an_example_fit_together(is_large, monkeypatch):
    if is_large:
        monkeypatch.setattr("qdqtool.samples.noise.LARGEST_RUN", -1)
    inputs = {"x": ("n", "s", 8), "mask": ("n", 1, "s", "t"), "past": ("n", 2, "p", 4)}
    proto = text_model(CACHED).proto

    assert example(proto, inputs) == "x:1x128x8,mask:1x1x128x352,past:1x2x224x4"
    # The shapes that the user has given stay.
    del inputs["past"]
    found = hint(proto, inputs, {"p": 10}, {"past": (1, 2, 10, 4)})
    assert "`--shapes x:1x128x8,mask:1x1x128x138`" in found


WINDOWED = """
<ir_version: 10, opset_import: ["": 21]>
g (float[1, 1, length] x, int64 rate) => (float[1, 2, frames] y)
<float[2, 1, 200] long = {LONG}, float[2, 1, 600] longer = {LONGER}, int64 low = {8000}>
{
  is_low = Equal (rate, low)
  y = If (is_low) <
    then_branch = a () => (float[1, 2, c] t) { t = Conv <strides = [200]> (x, long) },
    else_branch = b () => (float[1, 2, d] e) { e = Conv <strides = [600]> (x, longer) }
  >
}
"""


@pytest.mark.parametrize("elem_type", ["float", "bfloat16"])
def test_an_example_that_only_a_run_can_refuse(elem_type):
    """Shape inference does not see that a window is longer than the input, least of all in a branch."""
    text = WINDOWED.replace("LONGER", ",".join(["0"] * 1200)).replace("LONG", ",".join(["0"] * 400))
    proto = text_model(text.replace("float", elem_type)).proto
    dims = {"x": (1, 1, "length")}

    assert example(proto, dims) == "x:1x1x256 --input-values rate:8000"
    x = {"x": np.zeros((1, 1, 256), np.float32), "rate": np.array(8000)}
    assert elem_type == "bfloat16" or run(proto, x)[0].shape == (1, 2, 1)

    proto.graph.node[-1].attribute[0].g.CopyFrom(proto.graph.node[-1].attribute[1].g)
    proto.graph.node[-1].attribute[0].name = "then_branch"
    assert hint(proto, dims).startswith(
        "give data, or shapes of x that fit all inputs; the usual shapes do not fit: Conv"
    )
    # What ONNX Runtime cannot run at all is judged by shape inference alone.
    proto.graph.node.add(op_type="Unknown", domain="my", input=["x"], output=["other"])
    proto.opset_import.add(domain="my", version=1)
    assert example(proto, dims) == "x:1x1x128 --input-values rate:8000"
