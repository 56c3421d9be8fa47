"""Validate on random models, sound and damaged: its verdict is that of onnx's checker, ONNX Runtime and TensorRT."""

from collections.abc import Callable

import onnx
from hypothesis import assume, given
from hypothesis import strategies as st
from onnx import TensorProto, helper
from support.ort_verdict import ort_refuses
from support.random_models import brute, float_models, quantized_models, tried_on

from qdqtool.jobs.validate import validate_model
from qdqtool.models.graph.model import Model

NEVER_CHECKED_BY_ONNX = {"QA203", "QA205", "QA206", "QA207", "QA208", "QS003", "QS011", "QS014"}
"""Rules of the specification's text about shapes and numbers, which onnx's checker does not look at."""


@tried_on(30)
@given(quantized_models() | float_models())
def test_sound_models_are_refused_nowhere(model):
    for target in ("onnx", "ort-cpu"):
        assert refused(model, target) == set()


@tried_on(50)
@given(st.data(), quantized_models())
def test_damaged_models_are_refused_by_those_who_really_refuse_them(data, model):
    damaged = damage(data, model)
    broken, failed = checker_refuses(damaged.proto), ort_refuses(damaged.proto)
    said = refused(damaged, "onnx")
    assert said if broken else said <= NEVER_CHECKED_BY_ONNX, broken
    assert bool(refused(damaged, "ort-cpu")) == (failed is not None), failed
    refused(damaged, "tensorrt")


@tried_on(50)
@given(st.data(), float_models() | quantized_models())
def test_models_with_a_damaged_node_are_refused_by_those_who_really_refuse_them(data, model):
    """What ONNX Runtime finds only as it runs, such as an index of a Gather, is not asked of the rules."""
    proto = brute.copied(model.proto)
    node = data.draw(st.sampled_from([node for node in proto.graph.node if node.input and not brute.is_qdq(node)]))
    data.draw(st.sampled_from(NODE_DAMAGES))(data, proto, node)
    damaged = Model(proto)
    broken, failed = checker_refuses(proto), ort_refuses(proto)
    said = refused(damaged, "onnx")
    # QS004: a scale that has become one of blocks, at an opset without blocks.
    assert said if broken else said <= {*NEVER_CHECKED_BY_ONNX, "QS004"}, broken
    said = refused(damaged, "ort-cpu")
    assert failed is not None or not said
    if failed is not None and any(words in failed for words in ("INVALID_GRAPH", "Type Error", "ShapeInferenceError")):
        assert said, failed


def _other_input(data: st.DataObject, proto: onnx.ModelProto, node: onnx.NodeProto) -> None:
    """Read another tensor, of another type or shape perhaps, or nothing."""
    position = data.draw(st.integers(0, len(node.input) - 1))
    before = proto.graph.node[: list(proto.graph.node).index(node)]
    stored = (tensor.name for tensor in proto.graph.initializer)
    fed = (info.name for info in proto.graph.input)
    made = (name for each in before for name in each.output)
    # ONNX Runtime ends with a segmentation fault where the inputs of a Max have a gap.
    nothing = [] if node.op_type in VARIADIC else [""]
    node.input[position] = data.draw(st.sampled_from([*nothing, *stored, *fed, *made]))


def _other_constant(data: st.DataObject, proto: onnx.ModelProto, node: onnx.NodeProto) -> None:
    _replace(proto, node, data.draw(st.integers(0, len(node.input) - 1)), data.draw(CONSTANTS))


def _other_attribute(data: st.DataObject, proto: onnx.ModelProto, node: onnx.NodeProto) -> None:
    name = data.draw(st.sampled_from(["axis", "perm", "alpha", "nothing"]))
    _set(node, name, data.draw(st.integers(-5, 5)))


def _other_declaration(data: st.DataObject, proto: onnx.ModelProto, node: onnx.NodeProto) -> None:
    elem_type = data.draw(st.sampled_from([TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.INT64]))
    del proto.graph.value_info[:]
    for output in proto.graph.output:
        if output.name in node.output:
            output.type.tensor_type.elem_type = elem_type
            return
    proto.graph.value_info.append(helper.make_tensor_value_info(node.output[0], elem_type, None))


VARIADIC = {"Concat", "Max", "Mean", "Min", "Sum", "Einsum"}

NODE_DAMAGES: tuple[Callable[[st.DataObject, onnx.ModelProto, onnx.NodeProto], None], ...] = (
    _other_input,
    _other_constant,
    _other_attribute,
    _other_declaration,
)


def damage(data: st.DataObject, model: Model) -> Model:
    """Damage one Q or DQ of the main graph: those of branches are not run."""
    proto = brute.copied(model.proto)
    nodes = [node for node in proto.graph.node if brute.is_qdq(node)]
    assume(nodes and not any(dim.dim_param for info in proto.graph.input for dim in brute.dims(info)))
    node = nodes[data.draw(st.integers(0, len(nodes) - 1))]
    data.draw(st.sampled_from(DAMAGES))(data, proto, node)
    return Model(proto)


def _other_axis(data: st.DataObject, proto: onnx.ModelProto, node: onnx.NodeProto) -> None:
    _set(node, "axis", data.draw(st.integers(-5, 5)))


def _other_block_size(data: st.DataObject, proto: onnx.ModelProto, node: onnx.NodeProto) -> None:
    _set(node, "block_size", data.draw(st.integers(-1, 4)))


def _other_scale(data: st.DataObject, proto: onnx.ModelProto, node: onnx.NodeProto) -> None:
    _replace(proto, node, 1, data.draw(CONSTANTS))


def _other_zero_point(data: st.DataObject, proto: onnx.ModelProto, node: onnx.NodeProto) -> None:
    _replace(proto, node, 2, data.draw(CONSTANTS))


def _no_zero_point(data: st.DataObject, proto: onnx.ModelProto, node: onnx.NodeProto) -> None:
    del node.input[2:]


def _no_scale(data: st.DataObject, proto: onnx.ModelProto, node: onnx.NodeProto) -> None:
    node.input[1] = ""


def _other_data(data: st.DataObject, proto: onnx.ModelProto, node: onnx.NodeProto) -> None:
    node.input[0] = data.draw(st.sampled_from(["", "nowhere", *node.output]))


def _other_opset(data: st.DataObject, proto: onnx.ModelProto, node: onnx.NodeProto) -> None:
    proto.opset_import[0].version = data.draw(st.sampled_from([13, 19, 21, 23]))


CONSTANTS = st.builds(
    lambda elem_type, shape: helper.make_tensor("damage", elem_type, shape, [1] * (shape[0] if shape else 1)),
    st.sampled_from([TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.INT8, TensorProto.UINT8, TensorProto.INT32]),
    st.sampled_from([(), (1,), (2,), (4,), (7,)]),
)

DAMAGES: tuple[Callable[[st.DataObject, onnx.ModelProto, onnx.NodeProto], None], ...] = (
    _other_axis,
    _other_block_size,
    _other_scale,
    _other_zero_point,
    _no_zero_point,
    _no_scale,
    _other_data,
    _other_opset,
)


def _set(node: onnx.NodeProto, name: str, value: int) -> None:
    kept = [each for each in node.attribute if each.name != name]
    del node.attribute[:]
    node.attribute.extend([*kept, helper.make_attribute(name, value)])


def _replace(proto: onnx.ModelProto, node: onnx.NodeProto, position: int, tensor: onnx.TensorProto) -> None:
    proto.graph.initializer.append(tensor)
    while len(node.input) <= position:
        node.input.append("")
    node.input[position] = tensor.name


def refused(model: Model, target: str) -> set[str]:
    return {finding.code for finding in validate_model(model, [target]).findings if finding.effect == "refused"}


def checker_refuses(proto: onnx.ModelProto) -> str | None:
    try:
        onnx.checker.check_model(proto, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        return str(error)
    return None
