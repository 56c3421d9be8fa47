"""A model above 2 GiB is quantized in the memory of its largest tensor."""

import subprocess
import sys
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper
from support.command import qdqtool_process

ROWS, COLUMNS, LAYERS = 4096, 8192, 17
TENSOR_BYTES = ROWS * COLUMNS * 4
PLAN = 'schema_version = 1\n[[tensors]]\ntensor = "w*"\nformat = "int8"\nscale = 0.01\n'


def write_sparse_model(folder: Path) -> int:
    """A chain of MatMuls whose weights are a hole in a sparse file; returns the bytes of the weights."""
    tensors, nodes, previous = [], [], "x"
    for index in range(LAYERS):
        dims = (ROWS, COLUMNS) if index % 2 == 0 else (COLUMNS, ROWS)
        tensor = TensorProto(name=f"w{index}", data_type=TensorProto.FLOAT, dims=dims)
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in (("location", "m.data"), ("offset", index * TENSOR_BYTES), ("length", TENSOR_BYTES)):
            tensor.external_data.add(key=key, value=str(value))
        tensors.append(tensor)
        nodes.append(helper.make_node("MatMul", [previous, tensor.name], [f"y{index}"]))
        previous = f"y{index}"
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, ROWS])
    y = helper.make_tensor_value_info(previous, TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "g", [x], [y], tensors)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), folder / "m.onnx")
    with (folder / "m.data").open("wb") as file:
        file.truncate(LAYERS * TENSOR_BYTES)
    (folder / "p.toml").write_text(PLAN)
    return LAYERS * TENSOR_BYTES


@pytest.mark.slow(reason="models of hundreds of megabytes")
@pytest.mark.skipif(sys.platform == "win32", reason="measures with getrusage")
def test_peak_memory_is_bounded_by_the_largest_tensor(tmp_path: Path) -> None:
    assert write_sparse_model(tmp_path) > 2**31
    code = (
        "import resource, sys\nfrom qdqtool.jobs.insert import insert_plan\n"
        "insert_plan('m.onnx', 'p.toml', 'q.onnx')\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    unit = 1 if sys.platform == "darwin" else 1024
    assert int(done.stdout) * unit <= 500e6 + 3 * TENSOR_BYTES
    assert next(tmp_path.glob("q.onnx.*.data")).stat().st_size >= LAYERS * TENSOR_BYTES // 4


def test_weights_are_not_read_to_inspect_or_validate(tmp_path: Path) -> None:
    write_sparse_model(tmp_path)
    for command in ("inspect", "validate"):
        done = qdqtool_process(command, "m.onnx", cwd=tmp_path, timeout=20)
        assert done.code == 0
