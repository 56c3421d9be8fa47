"""Inputs whose values decide shapes: what is given fits them, what is missing is named with an option that works."""

import re
import shlex
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from support.command import qdqtool
from support.small import nodes_of

from qdqtool.engines.report import InputProfile
from qdqtool.engines.tensorrt.shape_values import (
    ShapeValues,
    measure_values,
    missing_values,
    resolve_values,
    used_values,
)
from qdqtool.errors import UsageError
from qdqtool.models.graph.io.load import load_model
from qdqtool.samples.feeds import load_feeds
from qdqtool.samples.signature import input_specs

Dims = list[int | str]


def saved(folder: Path, nodes: list[onnx.NodeProto], integers: dict[str, Dims], x: Dims, kind: int = TensorProto.INT64):
    """A model from float x and integer inputs to y."""
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, x)]
    inputs += [helper.make_tensor_value_info(name, kind, dims) for name, dims in integers.items()]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    graph = helper.make_graph(nodes, "g", inputs, outputs)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(proto, folder / "m.onnx")
    return folder / "m.onnx"


def reshape(folder: Path, count: int = 3) -> Path:
    return saved(folder, [helper.make_node("Reshape", ["x", "shape"], ["y"])], {"shape": [count]}, [2, 12])


SHAPE = InputProfile("shape", (1, 2, 12), (2, 3, 4), (2, 6, 12))


def test_missing_ones_are_filled_from_those_that_are_given(tmp_path: Path):
    model = load_model(reshape(tmp_path))
    options = ShapeValues(min={"shape": (1, 1, 1)}, max={"shape": (2, 3, 4)})

    assert resolve_values(model, options) == (InputProfile("shape", (1, 1, 1), (2, 3, 4), (2, 3, 4)),)
    assert resolve_values(model, ShapeValues(opt={"shape": (2, -1, 4)}))[0].min == (2, -1, 4)
    assert resolve_values(model, ShapeValues()) == ()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (ShapeValues(opt={"shap": (1,)}), "'shap', not an integer input of rank 0 or 1; did you mean 'shape'"),
        (ShapeValues(opt={"x": (1,)}), "'x', not an integer input"),
        (ShapeValues(opt={"shape": (1, 2)}), "gives 'shape' 2 values; expected 3"),
        (ShapeValues(opt={"shape": (1, 2, 3)}, max={"shape": (4, 4)}), "differ in number"),
        (ShapeValues(min={"shape": (1, 5, 3)}, max={"shape": (4, 4, 4)}), "value 1 has 5, 4, 4"),
    ],
)
def test_values_that_do_not_fit_their_input(options: ShapeValues, message: str, tmp_path: Path):
    with pytest.raises(UsageError, match=message):
        resolve_values(load_model(reshape(tmp_path)), options)


def test_data_gives_the_span_and_the_most_frequent_values(tmp_path: Path):
    (tmp_path / "d").mkdir()
    path = reshape(tmp_path)
    for number, values in enumerate([(1, 2, 12), (2, 6, 2), (2, 6, 2)]):
        np.savez(tmp_path / "d" / f"{number}.npz", x=np.zeros((2, 12), np.float32), shape=np.array(values, np.int64))
    feeds = load_feeds(tmp_path / "d", input_specs(load_model(path)))

    assert measure_values(feeds) == (InputProfile("shape", (1, 2, 2), (2, 6, 2), (2, 6, 12)),)


@pytest.mark.parametrize(
    ("count", "example"), [(1, "shape:24"), (2, "shape:2x12"), (4, "shape:1x1x2x12")], ids=["fewer", "as many", "more"]
)
def test_the_example_for_a_reshape_keeps_the_number_of_elements(count: int, example: str, tmp_path: Path):
    error = missing_values(load_model(reshape(tmp_path, count)), ["shape"])

    assert error.message.startswith("input 'shape' decides shapes by its values")
    assert f"`--opt-shape-values {example}` (" in (error.hint or "")


def test_values_for_an_input_that_decides_nothing_are_refused():
    assert used_values([SHAPE], ["shape", "n"]) == (SHAPE,)
    with pytest.raises(UsageError, match="names 'shape', whose values decide no shape") as caught:
        used_values([SHAPE], ["n"])
    assert caught.value.hint == "inputs whose values decide shapes: n"


NETWORKS = {
    "reshape": ([helper.make_node("Reshape", ["x", "a"], ["y"])], {"a": [3]}, [2, 12]),
    "expand": ([helper.make_node("Expand", ["x", "a"], ["y"])], {"a": [3]}, [1, 4]),
    "resize": ([helper.make_node("Resize", ["x", "", "", "a"], ["y"])], {"a": [4]}, [1, 3, 8, 8]),
    "top-k": ([helper.make_node("TopK", ["x", "a"], ["y", "i"])], {"a": [1]}, [5, 4]),
    "slice": ([helper.make_node("Slice", ["x", "a", "b"], ["y"])], {"a": [2], "b": [2]}, [4, 4]),
    "a name to quote": ([helper.make_node("Expand", ["x", "a b"], ["y"])], {"a b": [2]}, [1, 4]),
    "scalar": (
        nodes_of("axis = Constant <value_ints = [0]> ()  u = Unsqueeze (a, axis)  y = Expand (x, u)"),
        {"a": []},
        [4, 1],
    ),
}


@pytest.mark.slow(reason="runs commands that fail, and each advice")
@pytest.mark.builder
@pytest.mark.parametrize("name", NETWORKS)
def test_the_hint_as_printed_builds_the_engine(name: str, tmp_path: Path):
    pytest.importorskip("tensorrt_rtx")
    path = saved(tmp_path, *NETWORKS[name])
    refused = qdqtool("build", path, "-o", tmp_path / "e")

    assert refused.code == 2
    assert "the builder needs to know them" in refused.err
    found = re.search(r"for example: `(--opt-shape-values .*?)`", refused.err)
    done = qdqtool("build", path, "-o", tmp_path / "e", *shlex.split(found[1]))
    assert done.code == 0, done.err
    assert "values of input a" in done.out


@pytest.mark.builder
def test_a_range_and_data_reach_the_builder_and_the_manifest(tmp_path: Path):
    pytest.importorskip("tensorrt_rtx")
    path = saved(tmp_path, *NETWORKS["resize"])
    sizes = {"min": 8, "opt": 16, "max": 32}
    ranged = [word for key, n in sizes.items() for word in (f"--{key}-shape-values", f"a:1x3x{n}x{n}")]
    done = qdqtool("build", path, "-o", tmp_path / "e", *ranged)
    assert "values of input a: 1x3x8x8 to 1x3x32x32, optimized for 1x3x16x16" in done.out
    (tmp_path / "d").mkdir()
    np.savez(tmp_path / "d" / "0.npz", x=np.zeros((1, 3, 8, 8), np.float32), a=np.array([1, 3, 9, 9], np.int64))
    done = qdqtool("build", path, "-o", tmp_path / "e", "--calib-data", tmp_path / "d")
    assert "values of input a: 1x3x9x9" in done.out
    assert '"shape_values": [' in (tmp_path / "e.manifest.json").read_text()
    wrong = qdqtool("build", path, "-o", tmp_path / "f", "--opt-shape-values", "a:1x3x9x9,x:1")
    assert wrong.code == 2
    assert not (tmp_path / "f").exists()
