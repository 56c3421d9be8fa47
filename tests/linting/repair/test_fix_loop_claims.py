"""Two fixes of one batch never change the same thing; what they add or change side by side, they may."""

import pytest
from onnx import TensorProto

from qdqtool.linting.repair.fix_loop import Claims
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

BODY = ("y.then_branch",)
N, M = ("n",), ("m", "o")

SIDE_BY_SIDE: list[Edit] = [
    SetInput((), N, 0, "a"),
    SetInput((), N, 1, "a"),
    SetInput((), M, 0, "a"),
    SetInput(BODY, N, 0, "a"),
    SetAttribute((), N, "axis", 1),
    SetAttribute((), N, "to", 1),
    SetAttribute((), M, "axis", 1),
    RenameOutput((), M, 0, "p"),
    RenameOutput((), M, 1, "q"),
    SetNodeName((), N, "left"),
    SetOperator((), N, "Relu"),
    SetDomain((), N, ""),
    SetElementType((), "t", 1),
    RemoveInitializer((), "w"),
    RemoveInitializer(BODY, "t"),
    RemoveInitializer((), "n"),
    RemoveNode((), ("k",)),
]
"""Edits no two of which change the same thing; a tensor and the node that makes it are two things."""

THE_SAME: list[tuple[Edit, Edit]] = [
    (SetInput((), N, 0, "a"), SetInput((), N, 0, "b")),
    (SetAttribute((), N, "axis", 1), SetAttribute((), N, "axis", None)),
    (RenameOutput((), M, 1, "p"), RenameOutput((), M, 1, "q")),
    (SetNodeName((), N, "one"), SetNodeName((), N, "other")),
    (SetOperator((), N, "Relu"), SetOperator((), N, "Abs")),
    (SetDomain((), N, ""), SetDomain((), N, "my")),
    (SetElementType((), "t", 1), SetElementType((), "t", 2)),
    (SetElementType((), "t", 1), RemoveInitializer((), "t")),
    (RemoveNode((), N), RemoveNode((), N)),
    *((RemoveNode((), edit.node), edit) for edit in SIDE_BY_SIDE[:3] + SIDE_BY_SIDE[4:12] if hasattr(edit, "node")),
]


@pytest.mark.parametrize("first", SIDE_BY_SIDE)
def test_edits_of_two_things_go_together(first: Edit):
    for second in SIDE_BY_SIDE:
        claims = Claims()
        assert claims.add([first])
        assert claims.add([second]) == (second is not first)


@pytest.mark.parametrize(("first", "second"), [*THE_SAME, *(pair[::-1] for pair in THE_SAME)])
def test_edits_of_one_thing_do_not(first: Edit, second: Edit):
    claims = Claims()

    assert claims.add([first])
    assert not claims.add([second])
    assert not claims.add([first])


def test_additions_never_conflict():
    claims = Claims()
    node, constant = AddNode((), "Relu", ("a",), ("b",), "r"), AddInitializer((), TensorProto(name="b"))

    assert all(claims.add([node, constant]) for _ in range(3))
    assert claims.add([RemoveNode((), ("b",)), RemoveInitializer((), "b")])


def test_edits_that_are_refused_take_nothing():
    claims = Claims()
    free = SetInput((), M, 0, "a")
    taken = SetInput((), N, 0, "a")

    assert claims.add([taken])
    assert not claims.add([free, taken])
    assert claims.add([free, SetInput((), M, 1, "a")])
    assert not claims.add([SetInput((), M, 1, "b")])


def test_edits_of_one_fix_may_change_one_thing_twice():
    assert Claims().add([SetInput((), N, 0, "a"), SetInput((), N, 0, "b"), RemoveNode((), N)])
