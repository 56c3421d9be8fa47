"""Edits sorted by scope: each names something that the model has, and no two contradict."""

import numpy as np
import pytest
from onnx import numpy_helper
from support.edited import BODIES, CHAIN, THEN_BODY, text_model
from support.rich_model import rich_model

from qdqtool.errors import ModelError
from qdqtool.models.graph.edits.batch import EditError, new_batch, sort_edits, where
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
from qdqtool.models.graph.index.view import GraphView
from qdqtool.models.graph.model import Model
from qdqtool.models.graph.scope import MAIN

NEW = numpy_helper.from_array(np.zeros(4, np.float32), "new")


def sorted_edits(*edits, text=BODIES):
    return sort_edits(GraphView(text_model(text)), edits)


def test_every_scope_has_a_batch_of_its_own():
    batches = sorted_edits(RemoveNode(THEN_BODY, ("p",)), AddInitializer(MAIN, NEW), SetNodeName(MAIN, ("a",), "first"))
    assert list(batches) == [THEN_BODY, MAIN]
    assert batches[THEN_BODY].removed == {("p",)}
    assert batches[MAIN].new_initializers == [NEW]


def test_the_changes_of_one_node_are_collected():
    key = ("y",)
    (batch,) = sorted_edits(
        SetInput(MAIN, key, 1, "x"),
        SetInput(MAIN, key, 0, "a"),
        RenameOutput(MAIN, key, 0, "z"),
        SetAttribute(MAIN, key, "axis", 1),
        SetAttribute(MAIN, key, "axis", None),
        SetNodeName(MAIN, key, "last"),
        SetDomain(MAIN, key, "my"),
        SetOperator(MAIN, key, "Sub"),
        text=CHAIN,
    ).values()
    change = batch.changes[key]
    assert (change.inputs, change.outputs, change.attributes) == ({1: "x", 0: "a"}, {0: "z"}, {"axis": None})
    assert (change.name, change.domain, change.op_type) == ("last", "my", "Sub")


def test_names_that_come_and_go():
    (batch,) = sorted_edits(
        AddInitializer(MAIN, NEW),
        AddNode(MAIN, "Relu", ("a",), ("", "w"), "n"),
        RemoveInitializer(MAIN, "w"),
        RemoveNode(MAIN, ("b",)),
        RenameOutput(MAIN, ("a",), 0, "c"),
        text=CHAIN,
    ).values()
    assert sorted(batch.new_names()) == ["c", "new", "w"]
    assert batch.old_names() == {"a", "b", "w"}
    assert batch.vanished_names() == {"a", "b"}
    assert [batch.key_after(key) for key in (("a",), ("b",), ("y",))] == [("c",), ("b",), ("y",)]


def test_a_rename_of_a_node_that_goes_makes_no_name():
    (batch,) = sorted_edits(RenameOutput(MAIN, ("a",), 0, "c"), RemoveNode(MAIN, ("a",)), text=CHAIN).values()
    assert list(batch.new_names()) == []


def test_the_same_request_twice_is_no_contradiction():
    twice = [SetInput(MAIN, ("y",), 0, "x"), RenameOutput(MAIN, ("a",), 0, "z"), SetElementType(MAIN, "a", 10)] * 2
    (batch,) = sorted_edits(*twice, text=CHAIN).values()
    assert batch.changes[("y",)].inputs == {0: "x"}
    assert batch.element_types == {"a": 10}


CONTRADICTIONS: dict[str, tuple[list[Edit], str]] = {
    "unknown scope": ([RemoveNode(("nowhere",), ("a",))], "the model has no scope 'nowhere'"),
    "unknown node": ([RemoveNode(MAIN, ("nothing",))], r"the main graph has no node with outputs \['nothing'\]"),
    "node of another scope": ([SetInput(MAIN, ("p",), 0, "x")], r"no node with outputs \['p'\]"),
    "unknown initializer": ([RemoveInitializer(MAIN, "x")], "the main graph has no initializer 'x'"),
    "initializer of another scope": ([RemoveInitializer(THEN_BODY, "w")], "scope 'y.then_branch' has no initializer"),
    "unknown output": ([RenameOutput(MAIN, ("a",), 1, "z")], "no output 1 that could become 'z'"),
    "output before the first": ([RenameOutput(MAIN, ("a",), -1, "z")], "no output -1"),
    "output without a name": ([RenameOutput(MAIN, ("a",), 0, "")], "no output 0 that could become ''"),
    "unknown tensor": ([SetElementType(MAIN, "inner", 10)], "the main graph has no tensor 'inner'"),
    "two types": ([SetElementType(MAIN, "a", 10), SetElementType(MAIN, "a", 1)], "'a' of the main graph is given two"),
    "two tensors for an input": (
        [SetInput(THEN_BODY, ("p",), 0, "a"), SetInput(THEN_BODY, ("p",), 0, "x")],
        "node 'Relu -> p' of scope 'y.then_branch': input 0 is set twice, to different tensors",
    ),
    "two names for an output": (
        [RenameOutput(MAIN, ("y",), 0, "z"), RenameOutput(MAIN, ("y",), 0, "zz")],
        "output 0 is renamed twice",
    ),
    "new node without output": (
        [AddNode(MAIN, "Relu", ("x",), ("",), "n")],
        "a new Relu node in the main graph has no",
    ),
}


@pytest.mark.parametrize(("edits", "message"), CONTRADICTIONS.values(), ids=CONTRADICTIONS.keys())
def test_what_the_model_does_not_have_and_contradictions_are_refused(edits: list[Edit], message: str) -> None:
    with pytest.raises(EditError, match=message):
        sorted_edits(*edits)


def test_nodes_that_make_the_same_tensor_cannot_be_told_apart() -> None:
    model = text_model(CHAIN)
    model.proto.graph.node.add(op_type="Neg", input=["x"], output=["a"])
    with pytest.raises(ModelError, match="the main graph defines tensor 'a' twice"):
        new_batch(GraphView(model), MAIN)


def test_nodes_without_outputs_are_not_addressed() -> None:
    model = text_model(CHAIN)
    for _ in range(2):
        model.proto.graph.node.add(op_type="Print", input=["x"])
    view = GraphView(model)
    new_batch(view, MAIN)
    with pytest.raises(EditError, match=r"no node with outputs \[\]"):
        sort_edits(view, [RemoveNode(MAIN, ())])


def test_scopes_are_named_in_messages_as_users_see_them() -> None:
    assert where(MAIN) == "the main graph"
    assert where(("my::F", "y.body")) == "scope 'my::F/y.body'"


def test_edits_of_functions_and_their_bodies_have_batches() -> None:
    view = GraphView(Model(rich_model()))
    for scope in view.scopes:
        assert new_batch(view, scope.path).nodes.keys() == {node.key for node in scope.nodes}
