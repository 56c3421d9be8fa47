"""Looking at a model whose weights are somewhere else."""

from dataclasses import replace
from pathlib import Path

import onnx
import pytest
from onnx import numpy_helper
from support.command import qdqtool

from qdqtool.errors import ModelError
from qdqtool.jobs.inspect import inspect_model
from qdqtool.linting import rules
from qdqtool.models.graph.model import Model


def moved(folder: Path) -> Path:
    """A quantized model with all constants, scales too, in a data file that was left behind."""
    path = folder / "m.onnx"
    proto = rules.get("QP102").VALID[0].model()
    for tensor in proto.graph.initializer:  # only raw data is stored outside
        tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor), tensor.name))
    onnx.save(proto, path, save_as_external_data=True, location="m.data", size_threshold=0)
    return path


def test_operators_of_tensorrt_are_listed_and_what_reads_them_is_quantized():
    model = onnx.parser.parse_model(
        """<ir_version: 10, opset_import: ["": 21, "trt": 1]>
        agraph (float[2,64] x) => (float[2,4] y) <float[64,4] w> {
            q, s = trt.TRT_MXFP8DynamicQuantize (x)
            d = trt.TRT_MXFP8DequantizeLinear (q, s)
            y = MatMul (d, w)
        }"""
    )
    report = inspect_model(Model(model))

    assert [(group.kind, group.format, group.op_type, group.count) for group in report.groups] == [
        ("activation", "float8e4m3fn", "TRT_MXFP8DequantizeLinear", 1),
        ("activation", "float8e4m3fn", "TRT_MXFP8DynamicQuantize", 1),
    ]
    assert [(each.op_type, each.quantized, each.partly) for each in report.coverage] == [("MatMul", 0, 1)]


def test_everything_but_the_scales_is_known_without_the_external_data(tmp_path: Path):
    path = moved(tmp_path)
    complete = inspect_model(path, tensors=True)
    (tmp_path / "m.data").unlink()
    found = inspect_model(path, tensors=True)

    assert found.missing_data == ("m.data",)
    assert complete.missing_data == ()
    unknown = tuple(replace(group, scale_min=None, scale_max=None) for group in complete.groups)
    assert (found.model_file, complete.model_file) != (None, None)
    same = replace(found, missing_data=(), bytes=complete.bytes, model_file=complete.model_file)
    assert same == replace(complete, groups=unknown)
    assert found.bytes == path.stat().st_size < complete.bytes


def test_the_command_does_what_its_help_says(tmp_path: Path):
    path = moved(tmp_path)
    (tmp_path / "m.data").unlink()
    done = qdqtool("inspect", path)

    assert done.code == 0
    assert "external data is missing: m.data; scales in these files are unknown" in done.out
    assert "external data may be missing" in " ".join(qdqtool("inspect", "--help").out.split())


def test_data_outside_the_folder_is_refused_all_the_same(tmp_path: Path):
    path = moved(tmp_path)
    proto = onnx.load(path, load_external_data=False)
    for tensor in proto.graph.initializer:
        tensor.external_data[0].value = "../m.data"
    path.write_bytes(proto.SerializeToString())

    with pytest.raises(ModelError, match="is not a path inside the model's folder"):
        inspect_model(path)
