"""Plan files: strict decoding, matching, and parameters that fit their tensors."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from safetensors.numpy import save_file
from support.small import conv_model, make_model, matmul_model, nodes_of

from qdqtool.errors import UsageError
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.model import Model
from qdqtool.models.plan import Placement, UseRef
from qdqtool.numerics.granularity import Blocked, PerAxis, PerTensor
from qdqtool.quantization.planning.plan_file import read_plan_file
from qdqtool.quantization.planning.plan_resolve import resolve_plan


def resolve(folder: Path, *entries: dict[str, Any], model: onnx.ModelProto | None = None) -> tuple[Placement, ...]:
    path = folder / "plan.json"
    path.write_text(json.dumps({"schema_version": 1, "tensors": list(entries)}))
    index = ModelIndex.of(Model(model or conv_model()))
    return resolve_plan(read_plan_file(path), index, folder).placements


def entry(tensor: str, **keys: Any) -> dict[str, Any]:
    return {"tensor": tensor, "format": "int8", "scale": 0.5, **keys}


def refusal(folder: Path, *entries: dict[str, Any], model: onnx.ModelProto | None = None) -> str:
    with pytest.raises(UsageError) as caught:
        resolve(folder, *entries, model=model)
    return caught.value.message


TENSOR = "schema_version = 1\n[[tensors]]\ntensor='x'\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "schema_version = 1\ntensor = []\n",
            "unknown key 'tensor'; legal: schema_version, tensors, model_sha256; did you mean '",
        ),
        ("schema_version = 1\n", "missing required field 'tensors'"),
        (f"{TENSOR}format='int8'\n", "missing required field 'scale'"),
        (f"{TENSOR}format='int8'\nscale='big'\n", r"\$\.tensors\[0\]\.scale"),
        (f"{TENSOR}format='int8'\nscale=1.0\naxis=1.5\n", "Expected 'int | null'"),
        ("schema_version = = 1", "not valid TOML"),
        ("\xff\xfe", "not valid TOML"),
    ],
)
def test_malformed_plans_are_refused_with_the_place(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "plan.toml"
    path.write_text(text)
    with pytest.raises(UsageError, match=message):
        read_plan_file(path)


def test_missing_and_binary_plans(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        read_plan_file(tmp_path / "absent.toml")
    (tmp_path / "p.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="not a text file"):
        read_plan_file(tmp_path / "p.toml")
    (tmp_path / "p.json").write_text("[" * 100_000)
    with pytest.raises(UsageError, match="not valid JSON"):
        read_plan_file(tmp_path / "p.json")


def test_granularities(tmp_path: Path) -> None:
    per_tensor, per_axis, negative, one = resolve(
        tmp_path,
        entry("x", scale=0.25),
        entry("w", scale=[0.1, 0.2, 0.3, 0.4], axis=0),
        entry("v", scale=[1, 2, 3, 4], axis=-3),
        entry("r", scale=[0.5], axis=1),
    )
    assert per_tensor.params.scheme.granularity == PerTensor()
    assert per_tensor.params.scale.shape == ()
    assert per_axis.params.scheme.granularity == PerAxis(0)
    assert negative.params.scheme.granularity == PerAxis(1)
    assert negative.params.scale.dtype == np.float32
    assert one.params.scheme.granularity == PerTensor()


def test_blocks_spread_one_number_or_take_a_full_array(tmp_path: Path) -> None:
    np.savez(tmp_path / "s.npz", w=np.full((3, 6), 0.5, np.float32))
    (full,) = resolve(
        tmp_path,
        entry("w", format="int4", axis=0, block_size=3, scale={"file": "s.npz", "key": "w"}),
        model=matmul_model(),
    )
    (spread,) = resolve(tmp_path, entry("w", format="int4", axis=0, block_size=3), model=matmul_model())
    assert full.params.scheme.granularity == Blocked(0, 3)
    assert np.array_equal(full.params.scale, spread.params.scale)


def test_arrays_from_safetensors_and_npz_messages(tmp_path: Path) -> None:
    save_file({"w": np.full(4, 0.5, np.float32)}, tmp_path / "s.safetensors")
    (placed,) = resolve(tmp_path, entry("w", axis=0, scale={"file": "s.safetensors", "key": "w"}))
    assert placed.params.scale.tolist() == [0.5] * 4
    np.savez(tmp_path / "s.npz", weight=np.ones(4))
    np.savez(tmp_path / "pickled.npz", w=np.array([{}], dtype=object))
    (tmp_path / "text.npz").write_text("no archive")
    for file, key, message in (
        ("s.npz", "wieght", "has no array 'wieght'; it has weight; did you mean 'weight'?"),
        ("s.safetensors", "q", "has no array 'q'"),
        ("absent.npz", "w", "cannot be read: No such file"),
        ("pickled.npz", "w", "pickled objects are refused"),
        ("text.npz", "w", "no readable npz or safetensors"),
    ):
        assert message in refusal(tmp_path, entry("w", axis=0, scale={"file": file, "key": key}))


@pytest.mark.parametrize("name", ["s.npz", "compressed.npz", "s.safetensors"])
def test_a_damaged_array_file_is_a_usage_error_or_gives_the_array(name: str, tmp_path: Path) -> None:
    """One byte after the other is changed."""
    scale = {"w": np.full(4, 0.5, np.float32)}
    save = {"s.npz": np.savez, "compressed.npz": np.savez_compressed}.get(name)
    save(tmp_path / name, **scale) if save else save_file(scale, tmp_path / name)
    whole, refused = (tmp_path / name).read_bytes(), 0
    for position in range(len(whole)):
        (tmp_path / name).write_bytes(whole[:position] + bytes([whole[position] ^ 4]) + whole[position + 1 :])
        try:
            assert len(resolve(tmp_path, entry("w", axis=0, scale={"file": name, "key": "w"}))) == 1
        except UsageError:
            refused += 1
    assert 0 < refused < len(whole)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (
            {"scale": [0.1, 0.2], "axis": 0},
            "scale has shape [2]; per-axis 0 on a tensor of shape [4, 3, 3, 3] needs [4]",
        ),
        ({"scale": [0.1, -0.2, 0.3, 0.4], "axis": 0}, "scale is -0.2 at index [1]; every scale must be finite"),
        ({"scale": [0.1, 0.2, float("nan"), 0.0], "axis": 0}, "scale is nan at index [2] (and 1 more)"),
        ({"scale": float("inf")}, "scale is inf"),
        ({"scale": 1e-60}, "is 0 when stored as float32"),
        ({"scale": [1.0, 2.0]}, "scale has 2 elements and no axis"),
        ({"scale": [1.0] * 4, "axis": 4}, "axis is 4; a tensor of rank 4 has axes -4 to 3"),
        ({"scale": 1.0, "block_size": 4}, "block_size needs axis"),
        ({"scale": 1.0, "axis": 0, "block_size": 0}, "block_size is 0"),
        ({"scale": [[1.0], [1.0, 2.0]], "axis": 0}, "nested lists differ in length"),
        ({"scale": ["a"]}, "is not a number"),
        ({"format": "int9"}, "format 'int9' is unknown; legal:"),
        ({"format": "float8e8m0"}, "cannot be the output of QuantizeLinear"),
        ({"format": "float8e4m3fn", "zero_point": 1}, "zero_point must be 0 for float8e4m3fn"),
    ],
)
def test_parameters_that_do_not_fit(tmp_path: Path, bad: dict[str, Any], message: str) -> None:
    assert message in refusal(tmp_path, entry("w", **bad))


def test_half_precision_scales_take_the_type_of_the_data(tmp_path: Path) -> None:
    model = make_model(
        [helper.make_node("Relu", ["x"], ["y"])], {"x": (2,)}, {"y": (2,)}, {}, elem_type=TensorProto.FLOAT16
    )
    (placed,) = resolve(tmp_path, entry("x", scale=0.1), model=model)
    assert placed.params.scale.dtype == np.float16
    assert "is 0 when stored as float16" in refusal(tmp_path, entry("x", scale=1e-9), model=model)


def test_names_globs_and_consumers(tmp_path: Path) -> None:
    placed = resolve(tmp_path, entry("[wv]"), entry("r", consumers=["conv2"]))
    assert [place.slot.tensor for place in placed] == ["w", "v", "r"]
    assert placed[2].slot.uses == (UseRef((), ("y",), 0),)
    assert "no float tensor matches 'conv*'" in refusal(tmp_path, entry("conv*"))
    assert "did you mean 'w'" in refusal(tmp_path, entry("ww"))
    assert "has no consumer 'conv9'; it has conv2" in refusal(tmp_path, entry("r", consumers=["conv9"]))


def test_a_name_with_brackets_is_taken_literally(tmp_path: Path) -> None:
    nodes = [helper.make_node("Relu", ["a[0]"], ["y"])]
    model = make_model(nodes, {"a[0]": (2,)}, {"y": (2,)}, {})
    (placed,) = resolve(tmp_path, entry("a[0]"), model=model)
    assert placed.slot.tensor == "a[0]"


def test_an_exact_name_overrides_a_glob_and_equals_conflict(tmp_path: Path) -> None:
    placed = resolve(tmp_path, entry("*", scale=1.0), entry("w", scale=0.25))
    scales = {place.slot.tensor: float(place.params.scale) for place in placed}
    assert scales == {"x": 1.0, "b": 1.0, "v": 1.0, "c": 1.0, "r": 1.0, "y": 1.0, "w": 0.25}
    assert "entries 1 and 2 both quantize tensor 'w'" in refusal(tmp_path, entry("w"), entry("w"))
    assert "entries 1 and 2 both quantize tensor 'r'" in refusal(tmp_path, entry("r"), entry("r", consumers=["conv2"]))


def test_tensors_that_cannot_be_quantized_say_why(tmp_path: Path) -> None:
    nodes = nodes_of("q = QuantizeLinear (x, s, z)  d = DequantizeLinear (q, s, z)  y = Reshape (d, shape)")
    constants = {"s": np.float32(1), "z": np.int8(0), "shape": np.array([2], np.int64), "idle": np.ones(2, np.float32)}
    graph_model = make_model(nodes, {"x": (2,)}, {"y": (2,)}, {})
    graph_model.graph.initializer.extend(numpy_helper.from_array(np.asarray(v), k) for k, v in constants.items())
    for tensor, message in (
        ("x", "it feeds a QuantizeLinear"),
        ("d", "it is the output of a DequantizeLinear"),
        ("shape", "its type is int64"),
        ("idle", "nothing reads it"),
    ):
        assert message in refusal(tmp_path, entry(tensor), model=graph_model)


def inner_model() -> onnx.ModelProto:
    """An If whose branches have tensors of the same names, and a branch of a branch; the outer graph has ``t`` too."""
    deep = helper.make_graph([helper.make_node("Abs", ["x"], ["t"])], "deep", [], [_value("t")])
    deep_else = helper.make_graph([helper.make_node("Neg", ["x"], ["n"])], "deep_else", [], [_value("n")])
    then_nodes = [
        helper.make_node("Relu", ["x"], ["t"], name="inner_relu"),
        helper.make_node("If", ["c"], ["d"], then_branch=deep, else_branch=deep_else),
        helper.make_node("Add", ["t", "d"], ["o"]),
    ]
    then = helper.make_graph(then_nodes, "then", [], [_value("o")])
    other = helper.make_graph(
        [helper.make_node("Neg", ["x"], ["t"]), helper.make_node("Abs", ["t"], ["o"])], "other", [], [_value("o")]
    )
    nodes = [
        helper.make_node("Relu", ["x"], ["u"]),
        helper.make_node("If", ["c"], ["i"], then_branch=then, else_branch=other),
        helper.make_node("Add", ["u", "i"], ["y"]),
    ]
    model = make_model(nodes, {"x": (2,)}, {"y": (2,)}, {})
    model.graph.input.append(helper.make_tensor_value_info("c", TensorProto.BOOL, ()))
    return model


def _value(name: str, shape: tuple[int | str, ...] | None = (2,)) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


THEN, ELSE, DEEP = "i.then_branch", "i.else_branch", "i.then_branch/d.then_branch"


@pytest.mark.parametrize(
    ("keys", "scopes"),
    [
        ({}, {THEN, ELSE, DEEP}),
        ({"scope": "*"}, {THEN, ELSE, DEEP}),
        ({"scope": "i.*_branch"}, {THEN, ELSE, DEEP}),
        ({"scope": "i.e*"}, {ELSE}),
        ({"scope": THEN}, {THEN}),
        ({"scope": "*/*"}, {DEEP}),
    ],
)
def test_an_entry_takes_the_tensors_of_its_scopes(tmp_path: Path, keys: dict[str, str], scopes: set[str]) -> None:
    for pattern in ("t", "[t]"):
        placed = resolve(tmp_path, entry(pattern, **keys), model=inner_model())
        assert {"/".join(place.slot.scope) for place in placed} == scopes
        assert {place.slot.tensor for place in placed} == {"t"}


def test_a_scope_with_brackets_is_taken_literally(tmp_path: Path) -> None:
    then = helper.make_graph([helper.make_node("Relu", ["x"], ["o"])], "then", [], [_value("o")])
    other = helper.make_graph([helper.make_node("Neg", ["x"], ["o"])], "other", [], [_value("o")])
    model = make_model(
        [helper.make_node("If", ["c"], ["y[0]"], then_branch=then, else_branch=other)], {"x": (2,)}, {"y[0]": (2,)}, {}
    )
    model.graph.input.append(helper.make_tensor_value_info("c", TensorProto.BOOL, ()))
    (placed,) = resolve(tmp_path, entry("o", scope="y[0].then_branch"), model=model)
    assert placed.slot.scope == ("y[0].then_branch",)


def test_the_empty_scope_is_the_main_graph_alone(tmp_path: Path) -> None:
    (placed,) = resolve(tmp_path, entry("u", scope=""), model=inner_model())
    assert placed.slot.scope == ()


def test_a_qualified_name_stands_for_the_tensor_of_one_scope(tmp_path: Path) -> None:
    (placed,) = resolve(tmp_path, entry(f"{DEEP}/t"), model=inner_model())
    assert "/".join(placed.slot.scope) == DEEP


def test_globs_leave_out_tensors_that_cannot_be_quantized(tmp_path: Path) -> None:
    """Integers, tensors beside a Q or DQ, and constants that nothing reads."""
    nodes = nodes_of(
        "q = QuantizeLinear (x, s, z)  d = DequantizeLinear (q, s, z)  m = Reshape (d, shape)  y = Relu (m)"
    )
    model = make_model(nodes, {"x": (2,)}, {"y": (2,)}, {"s": np.float32(1), "z": np.int8(0)})
    model.graph.initializer.append(numpy_helper.from_array(np.array([2]), "shape"))
    model.graph.initializer.append(numpy_helper.from_array(np.ones(2, np.float32), "idle"))
    placed = resolve(tmp_path, entry("*"), model=model)
    assert [place.slot.tensor for place in placed] == ["m", "y"]


def read_twice() -> onnx.ModelProto:
    """``x`` is read by ``first``, by both inputs of ``both`` and, without a name, by the maker of ``n``."""
    nodes = [
        helper.make_node("Relu", ["x"], ["f"], name="first"),
        helper.make_node("Add", ["x", "x"], ["b"], name="both[0]"),
        helper.make_node("Neg", ["x"], ["n"]),
        helper.make_node("Sum", ["f", "b", "n"], ["y"]),
    ]
    return make_model(nodes, {"x": (2,)}, {"y": (2,)}, {})


@pytest.mark.parametrize(
    ("consumers", "uses"),
    [
        (["first"], [("f", 0)]),
        (["f"], [("f", 0)]),
        (["both[[]0]"], [("b", 0), ("b", 1)]),
        (["both[0]"], [("b", 0), ("b", 1)]),
        (["fir*"], [("f", 0)]),
        (["n", "*"], [("n", 0), ("f", 0), ("b", 0), ("b", 1)]),
        (["first", "f"], [("f", 0)]),
    ],
)
def test_consumers_are_named_by_node_or_output(
    tmp_path: Path, consumers: list[str], uses: list[tuple[str, int]]
) -> None:
    (placed,) = resolve(tmp_path, entry("x", consumers=consumers), model=read_twice())
    assert placed.slot.uses is not None
    assert [(use.node[0], use.index) for use in placed.slot.uses] == uses


@pytest.mark.parametrize(
    ("model", "entries", "message"),
    [
        (conv_model, [entry("x", scale=0)], "tensor 'x': scale is 0; every scale must be finite and greater than 0"),
        (inner_model, [entry("t", scope="")], "no float tensor matches 't' in scope ''"),
        (inner_model, [entry("u"), entry("c*")], "no float tensor matches 'c*'"),
        (inner_model, [entry("t", consumers=["no"])], f"tensor '{ELSE}/t' has no consumer 'no'; it has o"),
        (read_twice, [entry("y", consumers=["z"])], "tensor 'y' has no consumer 'z'; it has none"),
        (read_twice, [entry("x", consumers=["z"])], "tensor 'x' has no consumer 'z'; it has both[0], first, n"),
    ],
)
def test_an_entry_that_fits_nothing_is_named(
    tmp_path: Path, model: Callable[[], onnx.ModelProto], entries: list[dict[str, Any]], message: str
) -> None:
    assert refusal(tmp_path, *entries, model=model()) == f"plan entry {len(entries)}: {message}"


def test_two_entries_may_share_a_tensor_but_no_use_of_it(tmp_path: Path) -> None:
    one, two = resolve(tmp_path, entry("x", consumers=["f"]), entry("x", consumers=["n", "b"]), model=read_twice())
    assert [len(place.slot.uses or ()) for place in (one, two)] == [1, 3]
    assert "for the same use" in refusal(
        tmp_path, entry("x", consumers=["f", "n"]), entry("x", consumers=["b", "n"]), model=read_twice()
    )
    assert "plan entries 1 and 2 both quantize tensor 'y'" in refusal(tmp_path, entry("y"), entry("y"))


def test_an_exact_entry_for_some_uses_takes_the_tensor_from_a_glob(tmp_path: Path) -> None:
    placed = resolve(tmp_path, entry("[xf]"), entry("x", consumers=["n"], scale=2.0), model=read_twice())
    assert [(place.slot.tensor, float(place.params.scale)) for place in placed] == [("f", 0.5), ("x", 2.0)]


@pytest.mark.parametrize(
    ("zero_point", "symmetric"), [(None, True), (0, True), ([0] * 4, True), (3, False), ([0, 0, 5, 0], False)]
)
def test_a_scheme_is_symmetric_where_every_zero_point_is_zero(
    tmp_path: Path, zero_point: Any, *, symmetric: bool
) -> None:
    (placed,) = resolve(tmp_path, entry("w", axis=0, scale=[1.0] * 4, zero_point=zero_point))
    assert placed.params.scheme.symmetric is symmetric
    if zero_point is None:
        assert placed.params.zero_point is None
    else:
        assert placed.params.zero_point.tolist() == (np.zeros(4, int) + zero_point).tolist()


def constant_weight() -> onnx.ModelProto:
    """x[1,4] -> MatMul(w, from a Constant) -> m -> MatMul(v, an initializer) -> y."""
    weight = numpy_helper.from_array(np.ones((4, 4), np.float32), "w_value")
    nodes = [
        helper.make_node("Constant", [], ["w"], value=weight),
        helper.make_node("MatMul", ["x", "w"], ["m"]),
        helper.make_node("MatMul", ["m", "v"], ["y"]),
    ]
    return make_model(nodes, {"x": (4, 4)}, {"y": (4, 4)}, {"v": np.ones((4, 4), np.float32)})


def test_only_stored_weights_have_negative_scales(tmp_path: Path) -> None:
    mixed = {"format": "int4", "axis": 0, "block_size": 2, "scale": [[1.0, -1.0, 1.0, 1.0]] * 2}
    for tensor in ("w", "v"):
        (placed,) = resolve(tmp_path, entry(tensor, **mixed), model=constant_weight())
        assert placed.params.scale.tolist() == mixed["scale"]
    for number, tensor in enumerate(("x", "m"), start=1):
        good = [entry("v")] * (number - 1)
        assert refusal(tmp_path, *good, entry(tensor, **mixed), model=constant_weight()) == (
            f"plan entry {number}: tensor '{tensor}': a scale is negative, but only stored "
            "weights may have negative scales"
        )


def shaped(shape: tuple[int | str, ...] | None) -> onnx.ModelProto:
    """A Relu of a tensor ``x`` with this shape, as far as it is known."""
    model = make_model([helper.make_node("Relu", ["x"], ["y"])], {}, {}, {})
    model.graph.input.append(_value("x", shape))
    model.graph.output.append(_value("y", shape))
    return model


@pytest.mark.parametrize(
    ("shape", "keys", "granularity"),
    [
        (None, {"scale": 0.5}, PerTensor()),
        (None, {"scale": [0.5]}, PerTensor()),
        (None, {"scale": [0.5], "axis": -1}, PerTensor()),
        (None, {"scale": [0.5, 0.5], "axis": 0}, PerAxis(0)),
        (None, {"scale": [0.5, 0.5], "axis": 3}, PerAxis(3)),
        (("N", 2), {"scale": [0.5, 0.5], "axis": -1}, PerAxis(1)),
        (("N", 2), {"scale": [0.5, 0.5], "axis": 0}, PerAxis(0)),
        (("N", 4), {"scale": [[0.5, 0.5]], "axis": 1, "block_size": 2}, Blocked(1, 2)),
        ((3, 4), {"scale": 0.5, "axis": -1, "block_size": 2}, Blocked(1, 2)),
    ],
)
def test_scales_of_tensors_whose_shape_is_known_in_part(
    tmp_path: Path, shape: tuple[int | str, ...] | None, keys: dict[str, Any], granularity: object
) -> None:
    (placed,) = resolve(tmp_path, entry("x", **keys), model=shaped(shape))
    assert placed.params.scheme.granularity == granularity
    expected = {PerTensor(): (), Blocked(1, 2): (3, 2) if shape == (3, 4) else (1, 2)}.get(granularity, (2,))
    assert placed.params.scale.shape == expected


ONE_FOR_ALL = "one scale for all blocks needs a tensor of known shape; list the scales"


@pytest.mark.parametrize(
    ("shape", "keys", "message"),
    [
        (None, {"scale": [1, 1], "axis": -1}, "axis is -1, but the tensor's rank is unknown; count it from the front"),
        (None, {"scale": [[1, 1]], "axis": 1}, "scale has shape [1, 2]; per-axis 1 needs [axis length]"),
        (("N", 2), {"scale": [1, 1, 1], "axis": 1}, "scale has shape [3]; per-axis 1 needs [2]"),
        (("N", 2), {"scale": [[1, 1]], "axis": 1}, "scale has shape [1, 2]; per-axis 1 needs [2]"),
        (
            (3, 2),
            {"scale": [[1, 1]], "axis": 1},
            "scale has shape [1, 2]; per-axis 1 on a tensor of shape [3, 2] needs [2]",
        ),
        (None, {"scale": 1, "axis": 1, "block_size": 2}, ONE_FOR_ALL),
        (("N", 4), {"scale": 1, "axis": 1, "block_size": 2}, ONE_FOR_ALL),
    ],
)
def test_scales_that_cannot_fit_whatever_the_shape_is(
    tmp_path: Path, shape: tuple[int | str, ...] | None, keys: dict[str, Any], message: str
) -> None:
    assert refusal(tmp_path, entry("x", **keys), model=shaped(shape)) == f"plan entry 1: tensor 'x': {message}"


@pytest.mark.parametrize(("zero_point", "legal"), [(-128, True), (127, True), (-129, False), (128, False)])
def test_zero_points_are_codes_of_the_format(tmp_path: Path, zero_point: int, *, legal: bool) -> None:
    if legal:
        (placed,) = resolve(tmp_path, entry("x", zero_point=zero_point))
        assert placed.params.zero_point.tolist() == zero_point
        assert placed.params.zero_point.dtype == np.int8
        return
    assert refusal(tmp_path, entry("x", zero_point=zero_point)) == (
        f"plan entry 1: tensor 'x': zero_point is {zero_point}; int8 has integers from -128 to 127"
    )


def test_zero_points_of_a_file_are_integers_and_have_one_for_each_scale(tmp_path: Path) -> None:
    np.savez(tmp_path / "z.npz", half=np.array([0, 0.5, 0, 0]), good=np.array([1.0, 2.0, 3.0, 4.0]))
    keys = {"scale": [1.0] * 4, "axis": 0}
    assert "zero_point is 0.5; int8 has integers" in refusal(
        tmp_path, entry("w", **keys, zero_point={"file": "z.npz", "key": "half"})
    )
    (placed,) = resolve(tmp_path, entry("w", **keys, zero_point={"file": "z.npz", "key": "good"}))
    assert placed.params.zero_point.tolist() == [1, 2, 3, 4]
