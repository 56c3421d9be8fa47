"""A small model that has everything an edit could lose: bodies, functions, overloads, metadata, annotations.

It runs in ONNX Runtime, is the same on every call, and few of its nodes have names, as in real files.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

DOMAIN = "com.example.blocks"
IR_VERSION = 10

Feeds = dict[str, NDArray[Any]]


def rich_model(*, opset: int = 15, sparse: bool = False) -> ModelProto:
    """The model.

    Args:
        opset: Version of the default domain, 13 to 17.
        sparse: Whether one weight is a sparse initializer.
    """
    random = np.random.default_rng(20)
    graph = GraphProto(name="rich", doc_string="main graph")
    _add_interface(graph)
    _add_weights(graph, random)
    _add_main_nodes(graph)
    if sparse:
        _make_sparse(graph)
    imports = [("", opset), (DOMAIN, 1), ("com.microsoft", 1), ("com.example.unused", 7)]
    model = ModelProto(ir_version=IR_VERSION, producer_name="rich", producer_version="1", model_version=3, graph=graph)
    model.opset_import.extend(helper.make_opsetid(domain, version) for domain, version in imports)
    model.functions.extend(_functions(opset, random))
    model.doc_string = "carries everything"
    model.domain = "example.com"
    _add_training_info(model)
    _add_metadata(model)
    return model


def rich_feeds(*, flag: bool = True) -> Feeds:
    """Inputs for the model; ``flag`` chooses the branches."""
    random = np.random.default_rng(21)
    return {"x": random.standard_normal((1, 3, 8, 8)).astype(np.float32), "flag": np.array(flag)}


def _node(op: str, inputs: str, outputs: str, **attributes: Any) -> NodeProto:
    """A node without a name; tensor names separated by blanks."""
    domain, _, op_type = op.rpartition("/")
    overload = attributes.pop("overload", "")
    name = attributes.pop("name", None)
    node = helper.make_node(op_type, inputs.split(), outputs.split(), name=name, domain=domain or None, **attributes)
    if overload:
        node.overload = overload
    return node


def _value(name: str, shape: Sequence[int] | None = None, onnx_type: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, onnx_type, shape)


def _tensor(random: np.random.Generator, name: str, *shape: int) -> TensorProto:
    return numpy_helper.from_array((random.standard_normal(shape) * 0.4).astype(np.float32), name)


def _add_interface(graph: GraphProto) -> None:
    graph.input.extend([_value("x", (1, 3, 8, 8)), _value("flag", (), TensorProto.BOOL)])
    graph.output.extend([_value("features", (1, 4, 8, 8)), _value("logits", (1, 5)), _value("state", (1, 4))])
    graph.value_info.extend([_value("conv", (1, 4, 8, 8)), _value("relu", (1, 4, 8, 8)), _value("pooled", (1, 4))])
    annotation = graph.quantization_annotation.add(tensor_name="conv")
    annotation.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value="conv_annotated_scale")


def _add_weights(graph: GraphProto, random: np.random.Generator) -> None:
    graph.initializer.extend(
        [
            _tensor(random, "w_conv", 4, 3, 3, 3),
            _tensor(random, "b_conv", 4),
            _tensor(random, "w_shared", 4, 4, 3, 3),
            _tensor(random, "w_loop", 4, 4),
            _tensor(random, "w_gemm", 4, 4),
            _tensor(random, "w_block", 4, 5),
            _tensor(random, "w_second", 5, 5),
            _tensor(random, "w_sparse", 4, 4),
            numpy_helper.from_array(np.array(3, np.int64), "trip_count"),
            numpy_helper.from_array(np.array(True), "always"),
            numpy_helper.from_array(np.array(0.05, np.float32), "conv_annotated_scale"),
            _tensor(random, "unused", 2, 3),
        ]
    )


def _add_main_nodes(graph: GraphProto) -> None:
    graph.node.extend(
        [
            _node("Conv", "x w_conv b_conv", "conv", pads=[1, 1, 1, 1], name="first"),
            _node("Relu", "conv", "relu"),
            _node("If", "flag", "features", then_branch=_then_branch(), else_branch=_else_branch()),
            _node("ReduceMean", "features", "pooled", axes=[2, 3], keepdims=0),
            _node("MatMul", "pooled w_sparse", "mixed"),
            _node("Loop", "trip_count always mixed", "loop_state loop_trace", body=_loop_body()),
            _node("Scan", "loop_state loop_trace", "state scan_trace", num_scan_inputs=1, body=_scan_body()),
            _node(f"{DOMAIN}/Block", "state w_block", "block"),
            _node(f"{DOMAIN}/Block", "block w_second", "scaled", overload="scaled", alpha=0.25),
            _node(f"{DOMAIN}/Choose", "scaled flag", "chosen", name="choose"),
            _node("com.microsoft/FusedMatMul", "chosen w_second", "logits", transB=1, alpha=0.5),
        ]
    )


def _body(name: str, nodes: Iterable[NodeProto], inputs: Iterable[Any] = (), outputs: Iterable[Any] = ()) -> GraphProto:
    return GraphProto(name=name, doc_string=f"body {name}", node=nodes, input=inputs, output=outputs)


def _then_branch() -> GraphProto:
    inner_then = _body("inner_then", [_node("Mul", "then_conv relu", "inner")], outputs=[_value("inner")])
    inner_else = _body("inner_else", [_node("Neg", "then_conv", "inner")], outputs=[_value("inner")])
    nodes = [
        _node("Conv", "relu w_shared", "then_conv", pads=[1, 1, 1, 1]),
        _node("If", "flag", "then_out", then_branch=inner_then, else_branch=inner_else),
    ]
    return _body("then", nodes, outputs=[_value("then_out")])


def _else_branch() -> GraphProto:
    nodes = [
        _node("Conv", "relu w_shared else_bias", "else_conv", pads=[1, 1, 1, 1]),
        _node("Relu", "else_conv", "else_out"),
    ]
    body = _body("else", nodes, outputs=[_value("else_out", (1, 4, 8, 8))])
    body.initializer.append(_tensor(np.random.default_rng(22), "else_bias", 4))
    body.value_info.append(_value("else_conv", (1, 4, 8, 8)))
    return body


def _loop_body() -> GraphProto:
    nodes = [
        _node("Identity", "loop_condition", "loop_go_on"),
        _node("MatMul", "loop_in w_loop", "loop_product"),
        _node("Gemm", "loop_product w_gemm loop_bias", "loop_gemm", transB=1),
        _node("ReduceMean", "loop_gemm", "loop_mean", axes=[1]),
        _node("Sub", "loop_gemm loop_mean", "loop_out"),
        _node("Tanh", "loop_out", "loop_row"),
    ]
    inputs = [
        _value("loop_index", (), TensorProto.INT64),
        _value("loop_condition", (), TensorProto.BOOL),
        _value("loop_in", (1, 4)),
    ]
    outputs = [_value("loop_go_on", (), TensorProto.BOOL), _value("loop_out", (1, 4)), _value("loop_row", (1, 4))]
    body = _body("loop", nodes, inputs, outputs)
    body.initializer.append(_tensor(np.random.default_rng(23), "loop_bias", 4))
    return body


def _scan_body() -> GraphProto:
    nodes = [
        _node("MatMul", "scan_in w_loop", "scan_product"),
        _node("Add", "scan_product scan_row", "scan_sum"),
        _node("Softmax", "scan_sum", "scan_out", axis=-1),
        _node("Identity", "scan_out", "scan_copy"),
    ]
    inputs = [_value("scan_in", (1, 4)), _value("scan_row", (1, 4))]
    return _body("scan", nodes, inputs, [_value("scan_out", (1, 4)), _value("scan_copy", (1, 4))])


def _functions(opset: int, random: np.random.Generator) -> list[FunctionProto]:
    bias = _node("Constant", "", "bias", value=_tensor(random, "bias_value", 5))
    block = [
        _node("MatMul", "data weight", "product"),
        bias,
        _node("Add", "product bias", "sum"),
        _node(f"{DOMAIN}/Activate", "sum", "result"),
    ]
    scaled = [
        _node("MatMul", "data weight", "product"),
        _node("LeakyRelu", "product", "leaky", name="leaky"),
        _node("ReduceMean", "leaky", "mean", axes=[-1]),
        _node("Sub", "leaky mean", "result"),
    ]
    scaled[1].attribute.add(name="alpha", type=AttributeProto.FLOAT, ref_attr_name="alpha")
    positive = _body("positive", [_node("Relu", "data", "branch")], outputs=[_value("branch")])
    negative = _body("negative", [_node("Neg", "data", "branch")], outputs=[_value("branch")])
    choose = [_node("If", "choice", "result", then_branch=positive, else_branch=negative)]
    return [
        _function("Activate", ["data"], [_node("Sigmoid", "data", "result")], opset),
        _function("Block", ["data", "weight"], block, opset),
        _function("Block", ["data", "weight"], scaled, opset, overload="scaled", attributes=["alpha"]),
        _function("Choose", ["data", "choice"], choose, opset),
    ]


def _function(name: str, inputs: list[str], nodes: list[NodeProto], opset: int, **extra: Any) -> FunctionProto:
    imports = [helper.make_opsetid("", opset), helper.make_opsetid(DOMAIN, 1)]
    attributes = extra.pop("attributes", [])
    function = helper.make_function(
        DOMAIN, name, inputs, ["result"], nodes, imports, attributes=attributes, doc_string=f"function {name}", **extra
    )
    function.value_info.append(_value("result"))
    return function


def _make_sparse(graph: GraphProto) -> None:
    position = next(index for index, tensor in enumerate(graph.initializer) if tensor.name == "w_sparse")
    del graph.initializer[position]
    values = numpy_helper.from_array(np.array([1.0, -0.5, 0.25], np.float32), "w_sparse")
    indices = numpy_helper.from_array(np.array([0, 6, 9], np.int64), "w_sparse_indices")
    graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [4, 4]))


def _add_training_info(model: ModelProto) -> None:
    training = model.training_info.add()
    training.algorithm.name = "step"
    training.algorithm.node.append(_node("Mul", "w_loop w_loop", "w_loop_new"))
    training.algorithm.output.append(_value("w_loop_new", (4, 4)))
    training.update_binding.add(key="w_loop", value="w_loop_new")


def _add_metadata(model: ModelProto) -> None:
    """Metadata and a doc string on everything that can have them, below and including the model."""
    model.metadata_props.add(key="author", value="rich")
    for number, container in enumerate([model.graph, *model.functions, *_bodies(model)]):
        container.metadata_props.add(key="graph", value=str(number))
        described = [*container.node, *container.value_info]
        if isinstance(container, GraphProto):
            described += [*container.initializer, *container.input, *container.output]
        for index, item in enumerate(described):
            item.doc_string = f"documented {number}.{index}"
            item.metadata_props.add(key="place", value=f"{number}.{index}")


def _bodies(model: ModelProto) -> list[GraphProto]:
    found: list[GraphProto] = []
    pending: list[Any] = [model.graph, *model.functions]
    while pending:
        container = pending.pop()
        bodies = [attribute.g for node in container.node for attribute in node.attribute if attribute.HasField("g")]
        found += bodies
        pending += bodies
    return found
