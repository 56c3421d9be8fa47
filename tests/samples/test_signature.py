"""The inputs that a run needs, as the model declares them, and the shapes that a user fixes."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from support.small import make_model

from qdqtool.errors import CapabilityError, UsageError
from qdqtool.models.graph.model import Model
from qdqtool.samples.signature import InputSpec, check_names, input_specs, with_shapes

F32 = np.dtype(np.float32)
DYNAMIC = (InputSpec("x", F32, ("N", 8)),)


def specs_of(*values, initializers=()):
    graph = helper.make_graph([], "g", list(values), [], list(initializers))
    return input_specs(Model(helper.make_model(graph)))


def tensor(name, elem_type, shape):
    return helper.make_tensor_value_info(name, elem_type, shape)


def test_dimensions_are_extents_names_or_unknown():
    (spec,) = specs_of(tensor("x", TensorProto.FLOAT, ["N", 3, None]))
    assert spec == InputSpec("x", F32, ("N", 3, None))
    assert str(spec) == "x: float32 [N, 3, ?]"


def test_a_scalar_has_no_dimensions_and_an_unknown_rank_no_shape():
    scalar, unknown = specs_of(tensor("s", TensorProto.INT64, []), tensor("u", TensorProto.BOOL, None))
    assert (scalar.shape, unknown.shape) == ((), None)
    assert [str(spec) for spec in (scalar, unknown)] == ["s: int64 []", "u: bool unknown rank"]


def test_initializers_that_are_listed_as_inputs_need_not_be_fed():
    stored = helper.make_tensor("w", TensorProto.FLOAT, [1], [0.0])
    values = (tensor("w", TensorProto.FLOAT, [1]), tensor("x", TensorProto.FLOAT, [1]))
    assert [spec.name for spec in specs_of(*values, initializers=[stored])] == ["x"]


@pytest.mark.parametrize(
    ("elem_type", "dtype"),
    [(TensorProto.BFLOAT16, F32), (TensorProto.FLOAT16, np.dtype(np.float16)), (TensorProto.UINT8, np.dtype(np.uint8))],
)
def test_the_type_is_what_numpy_feeds(elem_type, dtype):
    (spec,) = specs_of(tensor("x", elem_type, [1]))
    assert spec.dtype == dtype


@pytest.mark.parametrize("elem_type", [TensorProto.STRING, TensorProto.INT4])
def test_types_that_cannot_be_fed_are_a_missing_capability(elem_type: int) -> None:
    nodes = [helper.make_node("Identity", ["x"], ["y"])]
    model = make_model(nodes, {"x": (1,)}, {"y": (1,)}, {}, elem_type=elem_type)
    with pytest.raises(CapabilityError, match=r"input 'x' has type (string|int4), which"):
        input_specs(Model(model))


def test_an_input_that_is_no_tensor_or_has_no_type_is_a_missing_capability():
    sequence = onnx.ValueInfoProto(name="s")
    sequence.type.sequence_type.elem_type.tensor_type.elem_type = TensorProto.FLOAT
    with pytest.raises(CapabilityError, match="input 's' is no tensor; only tensors can be fed"):
        specs_of(sequence)
    with pytest.raises(CapabilityError, match="input 'x' has no element type"):
        specs_of(tensor("x", TensorProto.UNDEFINED, [1]))


def test_input_shapes_must_fit_the_model() -> None:
    assert with_shapes(DYNAMIC, {"x": (5, 8)})[0].shape == (5, 8)
    for wrong in ((5, 9), (5,), (5, 8, 1)):
        with pytest.raises(
            UsageError, match=r"--input-shapes x:.* contradicts the model, which has x: float32 \[N, 8\]"
        ):
            with_shapes(DYNAMIC, {"x": wrong})
    with pytest.raises(UsageError, match="names 'y', which is no input; the inputs are x"):
        with_shapes(DYNAMIC, {"y": (5, 9)})
    with pytest.raises(UsageError, match="the model has no inputs"):
        with_shapes((), {"y": (5,)})


def test_an_unknown_rank_takes_any_shape_and_inputs_that_are_not_named_stay():
    specs = (InputSpec("a", F32, None), *DYNAMIC)
    fixed = with_shapes(specs, {"a": (1, 2, 3)})
    assert [spec.shape for spec in fixed] == [(1, 2, 3), ("N", 8)]


def test_names_must_be_exactly_the_inputs():
    specs = (InputSpec("image", F32, None), InputSpec("mask", F32, None))
    check_names({"mask": 1, "image": 2}, specs, "here")
    with pytest.raises(UsageError, match="here: 'imag' is no input of the model; its inputs: image, mask; did you"):
        check_names({"imag": 1}, specs, "here")
    with pytest.raises(UsageError, match="here: input 'mask' is missing; found: image"):
        check_names({"image": 1}, specs, "here")
    with pytest.raises(UsageError, match="here: input 'image' is missing; found: nothing"):
        check_names({}, specs, "here")
    with pytest.raises(UsageError, match="'arr_0' is no input") as unnamed:
        check_names({"arr_0": 1}, specs, "here")
    assert unnamed.value.hint == "name the array: numpy.savez(file, image=array)"
    with pytest.raises(UsageError, match="its inputs: none"):
        check_names({"x": 1}, (), "here")
