"""Plan files: strict decoding, matching, and parameters that fit their tensors."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from safetensors.numpy import save_file
from support.small import conv_model, make_model, matmul_model

from qdqtool.errors import UsageError
from qdqtool.graph.index.model_index import ModelIndex
from qdqtool.graph.model import Model
from qdqtool.numerics.granularity import Blocked, PerAxis, PerTensor
from qdqtool.plan import Placement, UseRef
from qdqtool.planning.plan_file import read_plan_file
from qdqtool.planning.plan_resolve import resolve_plan


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


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "schema_version = 1\ntensor = []\n",
            "unknown key 'tensor'; legal: schema_version, tensors; did you mean 'tensors'?",
        ),
        ("schema_version = 1\n", "missing required field 'tensors'"),
        ("schema_version = 1\ntensors = []\n", "names no tensor"),
        ("schema_version = 2\n[[tensors]]\ntensor='x'\nformat='int8'\nscale=1.0\n", "schema_version 2"),
        ("schema_version = 1\n[[tensors]]\ntensor='x'\nfromat='int8'\nscale=1.0\n", "entry 1: unknown key 'fromat'"),
        ("schema_version = 1\n[[tensors]]\ntensor='x'\nformat='int8'\n", "missing required field 'scale'"),
        ("schema_version = 1\n[[tensors]]\ntensor='x'\nformat='int8'\nscale='big'\n", r"\$\.tensors\[0\]\.scale"),
        ("schema_version = 1\n[[tensors]]\ntensor='x'\nformat='int8'\nscale=1.0\naxis=1.5\n", "Expected 'int | null'"),
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
        ({"zero_point": 200}, "zero_point is 200; int8 has integers from -128 to 127"),
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
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        helper.make_node("Reshape", ["d", "shape"], ["y"]),
    ]
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
