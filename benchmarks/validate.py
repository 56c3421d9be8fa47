"""Speed and memory of ``validate`` for all targets, next to what ONNX's own checker takes in the same run.

    python benchmarks/validate.py [--nodes 20000] [--gigabytes 10] [--repeat 3]

First a chain of quantized Convs of that many nodes, validated in this process: seconds, seconds more than the checker,
and the ratio of both. Then a model whose weights are holes in a sparse file of that size, half of them stored as codes
and half as float behind a Q, validated by the command line in a process of its own: seconds from start to exit, peak
memory. Each figure is the best of the repeats; what a ratio compares runs in turn.
"""

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from qdqtool.jobs.validate import validate_model
from qdqtool.linting import rules
from qdqtool.models import targets

NODES_PER_LAYER = 5
SIDE = 16384


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=20_000)
    parser.add_argument("--gigabytes", type=float, default=10)
    parser.add_argument("--repeat", type=int, default=3)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        many_nodes(Path(folder), arguments.nodes, arguments.repeat)
        many_bytes(Path(folder), int(arguments.gigabytes * 1e9), arguments.repeat)


def many_nodes(folder: Path, count: int, repeat: int) -> None:
    """A long chain of small layers: what a node costs."""
    path = folder / "nodes.onnx"
    onnx.save(chain(count), path)
    rules.catalogue()
    checker, ours = float("inf"), float("inf")
    for _ in range(repeat):
        checker = min(checker, seconds(lambda: onnx.checker.check_model(str(path))))
        ours = min(ours, seconds(lambda: validate_model(path, targets.names())))
    print(f"{count} nodes, {len(targets.names())} targets, {len(rules.catalogue())} rules")
    print(f"  onnx.checker {checker:.3f} s, validate {ours:.3f} s: {ours - checker:.3f} s more, {ours / checker:.1f} x")


def many_bytes(folder: Path, nbytes: int, repeat: int) -> None:
    """Huge weights: what they cost although nobody reads them as a whole."""
    path = folder / "bytes.onnx"
    stored = write_sparse(path, nbytes)
    words = [sys.executable, "-m", "qdqtool", "validate", str(path), "--target", ",".join(targets.names())]
    taken = min(seconds(lambda: subprocess.run(words, stdout=subprocess.DEVNULL, check=False)) for _ in range(repeat))
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    print(f"{stored / 1e9:.1f} GB of external data")
    print(f"  validate {taken:.2f} s from start to exit, {peak / 1e6:.0f} MB at most")


def seconds(work: Callable[[], object]) -> float:
    """Wall-clock seconds of one run."""
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def chain(count: int, scale: float = 0.1) -> onnx.ModelProto:
    """A chain of Q, DQ, weight DQ, Conv and Relu, with constants of its own in every layer."""
    nodes, stored, previous = [], [], "x"
    for index in range(count // NODES_PER_LAYER):
        names = {word: f"{word}{index}" for word in ("s", "z", "ws", "wz", "w", "q", "d", "wd", "c", "r")}
        arrays = {
            "s": np.float32(scale),
            "z": np.int8(0),
            "ws": np.full(4, 0.1, np.float32),
            "wz": np.zeros(4, np.int8),
            "w": np.ones((4, 4, 1, 1), np.int8),
        }
        stored += [numpy_helper.from_array(array, names[word]) for word, array in arrays.items()]
        nodes += [
            _node("QuantizeLinear", names, [previous, names["s"], names["z"]], "q"),
            _node("DequantizeLinear", names, [names["q"], names["s"], names["z"]], "d"),
            _node("DequantizeLinear", names, [names["w"], names["ws"], names["wz"]], "wd", axis=0),
            _node("Conv", names, [names["d"], names["wd"]], "c"),
            _node("Relu", names, [names["c"]], "r"),
        ]
        previous = names["r"]
    return _model(nodes, previous, [1, 4, 8, 8], stored)


def write_sparse(path: Path, nbytes: int) -> int:
    """A chain of MatMuls, one weight stored as int8 codes, the next as float; returns the bytes of external data."""
    nodes, previous, offset, index = [], "x", 0, 0
    stored = [numpy_helper.from_array(np.float32(0.1), "s"), numpy_helper.from_array(np.int8(0), "z")]
    while offset < nbytes:
        wide = index % 2 == 1
        tensor = TensorProto(name=f"w{index}", data_type=TensorProto.FLOAT if wide else TensorProto.INT8)
        tensor.dims.extend([SIDE, SIDE])
        tensor.data_location = TensorProto.EXTERNAL
        length = SIDE * SIDE * (4 if wide else 1)
        for key, value in (("location", "weights"), ("offset", offset), ("length", length)):
            tensor.external_data.add(key=key, value=str(value))
        stored.append(tensor)
        codes = f"q{index}" if wide else tensor.name
        if wide:
            nodes.append(helper.make_node("QuantizeLinear", [tensor.name, "s", "z"], [codes]))
        nodes.append(helper.make_node("DequantizeLinear", [codes, "s", "z"], [f"d{index}"]))
        nodes.append(helper.make_node("MatMul", [previous, f"d{index}"], [f"y{index}"]))
        previous, offset, index = f"y{index}", offset + length, index + 1
    path.write_bytes(_model(nodes, previous, [1, SIDE], stored).SerializeToString())
    with (path.parent / "weights").open("wb") as file:
        file.truncate(offset)
    return offset


def _node(op_type: str, names: dict[str, str], inputs: list[str], output: str, **attributes: int) -> onnx.NodeProto:
    return helper.make_node(op_type, inputs, [names[output]], name=names[output], **attributes)


def _model(
    nodes: list[onnx.NodeProto], output: str, shape: list[int], stored: list[onnx.TensorProto]
) -> onnx.ModelProto:
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in ("x", output)]
    graph = helper.make_graph(nodes, "benchmark", ends[:1], ends[1:], stored)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


if __name__ == "__main__":
    main()
