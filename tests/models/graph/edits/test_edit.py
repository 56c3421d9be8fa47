"""Edits are values of a closed set: each kind is carried out, and none can be changed once it is made."""

import dataclasses
import typing

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from support.edited import CHAIN, text_model
from support.rawdiff import changed_fields

from qdqtool.models.graph.edits import edit as module
from qdqtool.models.graph.edits.edit import (
    AddInitializer,
    AddNode,
    Edit,
    RemoveInitializer,
    RemoveNode,
    RenameOutput,
    SetAttribute,
    SetDomain,
    SetElementType,
    SetInput,
    SetNodeName,
    SetOperator,
)
from qdqtool.models.graph.edits.surgeon import apply_edits
from qdqtool.models.graph.scope import MAIN

KINDS = typing.get_args(Edit)
NEW = numpy_helper.from_array(np.zeros(4, np.float32), "new")
DONE: dict[str, tuple[list[Edit], list[str]]] = {
    "AddInitializer": ([AddInitializer(MAIN, NEW)], ["+graph.initializer[new]"]),
    "RemoveInitializer": (
        [RemoveInitializer(MAIN, "w"), SetInput(MAIN, ("b",), 1, "a")],
        ["-graph.initializer[w]", "graph.node[b].input"],
    ),
    "AddNode": ([AddNode(MAIN, "Relu", ("x",), ("n",), "n")], ["+graph.node[n]"]),
    "RemoveNode": (
        [RemoveNode(MAIN, ("b",)), SetInput(MAIN, ("y",), 1, "a")],
        ["-graph.node[b]", "graph.node[y].input", "-graph.value_info[b]"],
    ),
    "SetInput": ([SetInput(MAIN, ("y",), 0, "x")], ["graph.node[y].input"]),
    "RenameOutput": (
        [RenameOutput(MAIN, ("b",), 0, "c"), SetInput(MAIN, ("y",), 1, "c")],
        ["-graph.node[b]", "+graph.node[c]", "graph.node[y].input", "-graph.value_info[b]"],
    ),
    "SetAttribute": ([SetAttribute(MAIN, ("a",), "alpha", 0.5)], ["+graph.node[a].attribute[alpha]"]),
    "SetNodeName": ([SetNodeName(MAIN, ("a",), "first")], ["+graph.node[a].name"]),
    "SetDomain": ([SetDomain(MAIN, ("a",), "my")], ["graph.node[a].domain", "+opset_import[my]"]),
    "SetOperator": ([SetOperator(MAIN, ("a",), "Abs")], ["graph.node[a].op_type"]),
    "SetElementType": ([SetElementType(MAIN, "b", 10)], ["graph.value_info[b].type.tensor_type.elem_type"]),
}


def test_every_kind_of_edit_is_in_the_set():
    defined = {value for value in vars(module).values() if isinstance(value, type) and dataclasses.is_dataclass(value)}
    assert set(KINDS) == defined
    assert {kind.__name__ for kind in KINDS} == DONE.keys()


@pytest.mark.parametrize("kind", DONE)
def test_each_kind_changes_what_it_names_and_nothing_else(kind):
    model = text_model(CHAIN)
    model.proto.graph.value_info.append(helper.make_tensor_value_info("b", onnx.TensorProto.FLOAT, [4]))
    edits, changed = DONE[kind]
    assert changed_fields(model.proto, apply_edits(model, edits).proto) == sorted(changed)


@pytest.mark.parametrize("kind", DONE)
def test_no_edit_can_be_changed(kind):
    (edit, *_), _ = DONE[kind]
    with pytest.raises(dataclasses.FrozenInstanceError):
        edit.scope = ("other",)
