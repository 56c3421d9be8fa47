"""Shapes of a build: fixed ones specialize the model, calibration data fills what is open; what a refusal says."""

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from support.engine_models import Net, conv, matmul, refused, save
from support.small import make_model

from qdqtool.engines.build.build_model import measure, model_to_build
from qdqtool.engines.build.options import BuildOptions
from qdqtool.engines.build.profiles import ShapeOptions
from qdqtool.engines.report import InputProfile
from qdqtool.engines.tensorrt.builder import BuildRefusedError
from qdqtool.errors import UsageError
from qdqtool.jobs.build import build_engine
from qdqtool.models.graph.io.load import load_model
from qdqtool.samples.feeds import load_feeds
from qdqtool.samples.request import FileData
from qdqtool.samples.signature import input_specs

DYNAMIC = {"x": ("batch", 16, "height", "width")}
UNCHECKED = BuildOptions(skip_validate=True, timeout=120)


@pytest.fixture
def _has_the_builder():
    pytest.importorskip("tensorrt_rtx")


def branching():
    """x[batch, 64] through a MatMul; an If asks whether the batch is 1 and, if not, would negate."""
    net = Net()
    net.constant("one", np.array([1], np.int64))
    net.constant("first", np.array([0], np.int64))
    net.op("MatMul", [net.activation("x"), net.weight("w", (64, 32), axis=1)], "m")
    net.op("Shape", ["x"], "shape")
    net.op("Gather", ["shape", "first"], "batch")
    net.op("Equal", ["batch", "one"], "is_one")
    bodies = {}
    for name, op_type in (("then_branch", "Relu"), ("else_branch", "Neg")):
        output = helper.make_tensor_value_info(f"{name}_y", TensorProto.FLOAT, None)
        node = helper.make_node(op_type, ["m"], [f"{name}_y"], name)
        bodies[name] = helper.make_graph([node], name, [], [output])
    net.op("If", ["is_one"], "y", **bodies)
    return net.model({"x": ("batch", 64)})


def write_folder(folder: Path, sizes: list[tuple[int, int]]) -> Path:
    folder.mkdir()
    for number, (height, width) in enumerate(sizes):
        np.savez(folder / f"{number}.npz", x=np.zeros((1, 16, height, width), np.float32))
    return folder


def test_data_gives_the_smallest_the_most_frequent_and_the_largest_extents(tmp_path):
    folder = write_folder(tmp_path / "d", [(9, 30), (12, 20), (40, 8), (12, 20)])
    specs = input_specs(load_model(save(conv(inputs=DYNAMIC), tmp_path)))
    expected = InputProfile("x", (1, 16, 9, 8), (1, 16, 12, 20), (1, 16, 40, 30))
    assert measure(load_feeds(folder, specs)) == {"x": expected}


@pytest.mark.parametrize(
    ("shapes", "expected"),
    [
        (ShapeOptions(), {(1, 5)}),
        (ShapeOptions(opt={"a": (4, 7)}), {(4, 7)}),
        (ShapeOptions(fixed={"a": (1, 5)}), set()),
    ],
)
def test_what_the_user_names_goes_before_the_data_and_settles_its_symbols(tmp_path, shapes, expected):
    nodes = [helper.make_node("Add", ["a", "b"], ["y"])]
    model = load_model(save(make_model(nodes, dict.fromkeys("ab", ("n", "t")), {"y": ("n", "t")}, {}), tmp_path))
    np.savez(tmp_path / "d.npz", a=np.zeros((3, 5), np.float32), b=np.zeros((3, 5), np.float32))
    data = FileData(path=tmp_path / "d.npz", allow_constant=True)
    with model_to_build(model, BuildOptions(shapes=shapes, calib_data=data)) as ready:
        assert {profile.opt for profile in ready.profiles} == expected


def test_data_that_does_not_fit_is_a_usage_error(tmp_path):
    path = save(conv(inputs=DYNAMIC), tmp_path)
    np.savez(tmp_path / "d.npz", z=np.zeros((1, 16, 8, 8), np.float32))
    options = BuildOptions(calib_data=FileData(path=tmp_path / "d.npz", allow_constant=True))
    with pytest.raises(UsageError, match="'z' is no input"), model_to_build(load_model(path), options):
        pass


@pytest.mark.builder
@pytest.mark.usefixtures("_has_the_builder")
def test_an_engine_takes_the_range_of_its_data(tmp_path):
    folder = write_folder(tmp_path / "d", [(8, 8), (16, 24), (16, 24)])
    options = BuildOptions(calib_data=FileData(path=folder, allow_constant=True), timeout=120)
    report = build_engine(save(conv(inputs=DYNAMIC), tmp_path), tmp_path / "e.engine", options=options)
    assert report.profiles == (InputProfile("x", (1, 16, 8, 8), (1, 16, 16, 24), (1, 16, 16, 24)),)
    assert report.specialized is None


def test_fixed_shapes_fold_branches_in_a_file_of_its_own(tmp_path):
    path = save(branching(), tmp_path)
    before = path.read_bytes()
    with model_to_build(load_model(path), BuildOptions(shapes=ShapeOptions(fixed={"x": (1, 64)}))) as ready:
        graph = onnx.load(ready.file.path).graph
        assert [dim.dim_value for dim in graph.input[0].type.tensor_type.shape.dim] == [1, 64]
        assert not {"If", "Neg", "Shape"} & {node.op_type for node in graph.node}
        assert ready.profiles == ()
        assert ready.specialized.nodes_after < ready.specialized.nodes_before
        written = ready.file.path
    assert not written.exists()
    assert path.read_bytes() == before


def test_external_weights_follow_a_specialized_model(tmp_path):
    path = tmp_path / "m.onnx"
    onnx.save(branching(), path, save_as_external_data=True, location="m.data", size_threshold=16)
    with model_to_build(load_model(path), BuildOptions(shapes=ShapeOptions(fixed={"x": (1, 64)}))) as ready:
        assert ready.file.path.parent != tmp_path
        stored = onnx.load(ready.file.path)
    found, original = ({tensor.name: tensor for tensor in each.graph.initializer} for each in (stored, onnx.load(path)))
    assert found["w"].raw_data == original["w"].raw_data


@pytest.mark.parametrize("kind", ["fixed", "opt"])
def test_what_was_fixed_is_told(tmp_path, kind):
    model = load_model(save(branching(), tmp_path))
    with model_to_build(model, BuildOptions(shapes=ShapeOptions(**{kind: {"x": (1, 64)}}))) as ready:
        assert (ready.specialized is not None, ready.has_fixed_shapes) == (kind == "fixed", kind == "fixed")


def test_values_alone_fix_no_shapes(tmp_path):
    net = Net()
    net.op("Mul", [net.activation("x"), "factor"], "y")
    model = load_model(save(net.model({"x": (2, 3), "factor": ()}), tmp_path))
    with model_to_build(model, BuildOptions(input_values={"factor": (0.5,)})) as ready:
        assert [spec.name for spec in input_specs(ready.file)] == ["x"]
        assert ready.specialized is not None
        assert not ready.has_fixed_shapes


def test_without_fixed_shapes_the_model_itself_is_built(tmp_path):
    model = load_model(save(branching(), tmp_path))
    with model_to_build(model, BuildOptions()) as ready:
        assert ready.file is ready.model is model
        assert ready.specialized is None


@pytest.mark.builder
@pytest.mark.usefixtures("_has_the_builder")
def test_report_and_manifest_say_what_was_specialized(tmp_path):
    options = BuildOptions(shapes=ShapeOptions(fixed={"x": (1, 64)}), timeout=120)
    path = save(branching(), tmp_path)
    report = build_engine(path, tmp_path / "e.engine", options=options)
    assert report.specialized.input_shapes == {"x": (1, 64)}
    assert report.achieved == {"int8": 1}
    manifest = json.loads((tmp_path / "e.engine.manifest.json").read_text())
    assert manifest["specialized"]["input_shapes"] == {"x": [1, 64]}
    assert manifest["model"]["name"] == "m.onnx"
    assert manifest["model"]["bytes"] == path.stat().st_size
    assert sorted(file.name for file in tmp_path.iterdir()) == ["e.engine", "e.engine.manifest.json", "m.onnx"]


def zero_point_of_five():
    """A MatMul whose activation has a zero point that TensorRT refuses."""
    model = matmul()
    zero = next(tensor for tensor in model.graph.initializer if tensor.name == "x_z")
    zero.raw_data = b"\x05"
    return model


def unheard():
    """A float model with an operator that nobody has."""
    node = helper.make_node("Unheard", ["x"], ["y"], "unheard", domain="nowhere")
    model = make_model([node], {"x": (1, 4)}, {"y": (1, 4)}, {})
    model.opset_import.append(helper.make_opsetid("nowhere", 1))
    return model


@pytest.mark.builder
@pytest.mark.usefixtures("_has_the_builder")
@pytest.mark.parametrize(
    ("model", "remark"),
    [
        (zero_point_of_five(), "the float model builds: the Q/DQ nodes are the cause"),
        (refused(), "the float model is refused too (TensorRT has no operator and no plugin"),
        (unheard(), "this is a float model: quantization is not the cause"),
    ],
    ids=["quantized", "both", "float"],
)
def test_a_refusal_says_whether_the_float_model_is_refused_too(model, remark, tmp_path):
    with pytest.raises(BuildRefusedError) as caught:
        build_engine(save(model, tmp_path), tmp_path / "e.engine", options=UNCHECKED)
    assert remark in caught.value.remark
    assert caught.value.hint.startswith(caught.value.remark)
    assert [file.name for file in tmp_path.iterdir()] == ["m.onnx"]


@pytest.mark.real
@pytest.mark.builder
@pytest.mark.usefixtures("_has_the_builder")
def test_the_voice_detector_builds_with_fixed_inputs_and_its_refusal_names_them(real_model, tmp_path):
    if not real_model.stem.startswith("silero"):
        pytest.skip("the other models have no If")
    shapes = {"input": (1, 576), "state": (2, 1, 128)}
    with pytest.raises(BuildRefusedError, match="internal error in the control flow") as caught:
        build_engine(
            real_model, tmp_path / "e.engine", options=BuildOptions(shapes=ShapeOptions(opt=shapes), timeout=300)
        )
    assert caught.value.hint.endswith("`--input-shapes input:1x576,state:2x1x128`")
    options = BuildOptions(shapes=ShapeOptions(opt=shapes), input_values={"sr": (16000,)}, timeout=300)
    with pytest.raises(BuildRefusedError) as caught:
        build_engine(real_model, tmp_path / "e.engine", options=options)
    assert caught.value.hint.endswith("`--input-shapes input:1x576,state:2x1x128`")
    for values in ({}, {"sr": (16000,)}):
        options = BuildOptions(shapes=ShapeOptions(fixed=shapes), input_values=values, timeout=300)
        report = build_engine(real_model, tmp_path / "e.engine", options=options)
        assert report.bytes > 0
        assert report.specialized.input_values == values
