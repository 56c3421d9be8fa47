"""After the edits every tensor is defined once, and what is read is defined."""

from collections.abc import Iterator

import numpy as np
import pytest
from onnx import numpy_helper
from support.edited import BODIES, CHAIN, THEN_BODY, text_model

from qdqtool.models.graph.edits import surgeon
from qdqtool.models.graph.edits.batch import EditError, sort_edits
from qdqtool.models.graph.edits.edit import (
    AddInitializer,
    AddNode,
    Edit,
    RemoveInitializer,
    RemoveNode,
    RenameOutput,
    SetInput,
    SetNodeName,
)
from qdqtool.models.graph.edits.surgeon import check_batches
from qdqtool.models.graph.index.view import GraphView, Scope
from qdqtool.models.graph.scope import MAIN, ScopePath

ZEROS = np.zeros(4, np.float32)
ELSE_BODY = ("y.else_branch",)


def check(edits: list[Edit], text: str = BODIES) -> None:
    view = GraphView(text_model(text))
    check_batches(view, sort_edits(view, edits))


REFUSED: dict[str, tuple[list[Edit], str]] = {
    "tensor that exists": (
        [AddNode(MAIN, "Relu", ("x",), ("a",), "n")],
        "'a' would be defined twice in the main graph",
    ),
    "initializer that exists": (
        [AddInitializer(MAIN, numpy_helper.from_array(ZEROS, "x"))],
        "'x' would be defined twice",
    ),
    "new name twice": ([AddNode(MAIN, "Relu", ("x",), ("n", "n"), "n")], "'n' would be defined twice"),
    "outer name in a body": ([AddNode(THEN_BODY, "Relu", ("x",), ("a",), "n")], "would hide the tensor of the main"),
    "body's name outside": ([AddNode(MAIN, "Relu", ("x",), ("inner",), "n")], "would hide the tensor of the main"),
    "removed but read": ([RemoveNode(MAIN, ("a",))], "'a' of the main graph would vanish, but input 0 of node 'Add"),
    "removed constant but read": ([RemoveInitializer(MAIN, "w")], "'w' of the main graph would vanish, but input 1"),
    "removed graph output": ([RemoveNode(MAIN, ("y",))], "'y' would vanish, but it is an output of the main graph"),
    "removed body output": ([RemoveNode(THEN_BODY, ("p",))], "output of scope 'y.then_branch'"),
    "renamed but read": ([RenameOutput(MAIN, ("a",), 0, "z")], "'a' of the main graph would vanish"),
    "another input of the reader is moved": (
        [RemoveInitializer(MAIN, "w"), SetInput(THEN_BODY, ("inner",), 0, "x")],
        "'w' of the main graph would vanish, but input 1",
    ),
    "reads nothing": ([SetInput(MAIN, ("a",), 0, "nothing")], "reads tensor 'nothing', which is defined nowhere"),
    "reads a body's tensor": ([SetInput(MAIN, ("a",), 0, "inner")], "reads tensor 'inner'"),
    "reads the other body's tensor": (
        [SetInput(ELSE_BODY, ("q",), 0, "inner")],
        "an edit in scope 'y.else_branch' reads",
    ),
    "new node reads nothing": ([AddNode(MAIN, "Relu", ("", "gone"), ("n",), "n")], "reads tensor 'gone'"),
    "reads what vanishes": (
        [RemoveNode(THEN_BODY, ("inner",)), SetInput(THEN_BODY, ("p",), 0, "inner")],
        "reads tensor 'inner', which is defined nowhere",
    ),
}


@pytest.mark.parametrize(("edits", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_names_without_a_definition_or_with_two_are_refused(edits: list[Edit], message: str) -> None:
    with pytest.raises(EditError, match=message):
        check(edits)


ALLOWED: dict[str, list[Edit]] = {
    "freed name taken": [RenameOutput(MAIN, ("y",), 0, "z"), AddNode(MAIN, "Relu", ("z",), ("y",), "n")],
    "initializer replaced": [
        RemoveInitializer(MAIN, "w"),
        AddInitializer(MAIN, numpy_helper.from_array(ZEROS, "w")),
    ],
    "reader moved": [RemoveInitializer(MAIN, "w"), SetInput(THEN_BODY, ("inner",), 1, "x")],
    "reader removed": [
        RemoveNode(THEN_BODY, ("inner",)),
        SetInput(THEN_BODY, ("p",), 0, "a"),
        RemoveInitializer(MAIN, "w"),
    ],
    "owner removed": [
        RemoveNode(MAIN, ("y",)),
        RemoveNode(MAIN, ("a",)),
        RemoveInitializer(MAIN, "w"),
        AddNode(MAIN, "Abs", ("x",), ("y",), "n"),
    ],
    "the same name in both bodies": [
        AddNode(THEN_BODY, "Relu", ("x",), ("both",), "n"),
        AddNode(ELSE_BODY, "Relu", ("x",), ("both",), "m"),
    ],
    "name of a vanished tensor of a body": [
        RemoveNode(THEN_BODY, ("inner",)),
        SetInput(THEN_BODY, ("p",), 0, "a"),
        AddNode(MAIN, "Relu", ("x",), ("inner",), "n"),
    ],
    "absent inputs": [SetInput(THEN_BODY, ("p",), 0, ""), AddNode(MAIN, "Clip", ("x", "", "a"), ("n",), "n")],
    "nothing named anew": [SetNodeName(MAIN, ("a",), "a")],
}


@pytest.mark.parametrize("edits", ALLOWED.values(), ids=ALLOWED.keys())
def test_names_that_are_free_after_the_edits_may_be_used(edits: list[Edit]) -> None:
    check(edits)


def test_a_reader_in_a_chain_is_named_with_the_input_that_reads():
    message = "'a' of the main graph would vanish, but input 0 of node 'Mul -> b' reads it"
    with pytest.raises(EditError, match=message):
        check([RemoveNode(MAIN, ("a",)), SetInput(MAIN, ("y",), 0, "x")], CHAIN)


def test_a_name_that_its_scope_defines_is_not_looked_for_further_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bodies may lie 30 deep, and each edit in the innermost would look through all of them."""
    view = GraphView(text_model(BODIES))
    inner = view.scope(THEN_BODY)
    name = next(iter(node.key[0] for node in inner.nodes))
    edits = [AddNode(THEN_BODY, "Relu", (name,), ("new",), "n")]
    looked: list[ScopePath] = []
    outwards = Scope.outwards

    def noted(scope: Scope) -> Iterator[Scope]:
        for each in outwards(scope):
            looked.append(each.path)
            yield each

    monkeypatch.setattr(Scope, "outwards", noted)
    batches = sort_edits(view, edits)
    surgeon._Checker(batches).check_reads(batches[THEN_BODY])
    assert looked == [THEN_BODY]
