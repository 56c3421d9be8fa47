"""A float model under the names and types of another model's inputs and outputs, as ``check`` needs it."""

import onnx
from onnx import compose, helper

PREFIX = "float/"


def like(float_model: onnx.ModelProto, model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the float model with inputs and outputs as the other has them, by position.

    Tools rename them, and exports in float16 take and return it. A Cast stands at each of them.
    """
    made = compose.add_prefix(float_model, PREFIX)
    graph = made.graph
    given, wanted = inputs_of(made), inputs_of(model)
    entries = [
        helper.make_node("Cast", [new.name], [old.name], to=old.type.tensor_type.elem_type)
        for old, new in zip(given, wanted, strict=True)
    ]
    exits = [
        helper.make_node("Cast", [old.name], [new.name], to=new.type.tensor_type.elem_type)
        for old, new in zip(graph.output, model.graph.output, strict=True)
    ]
    nodes = [*entries, *graph.node, *exits]
    for field, values in ((graph.node, nodes), (graph.input, wanted), (graph.output, model.graph.output)):
        kept = list(values)
        del field[:]
        field.extend(kept)
    return made


def inputs_of(model: onnx.ModelProto) -> list[onnx.ValueInfoProto]:
    """Return the inputs of a model that are no constants."""
    constants = {each.name for each in model.graph.initializer}
    return [each for each in model.graph.input if each.name not in constants]
