import onnx
import pytest
from onnx import helper
from support.planted import network

from qdqtool.jobs.reduction.failure import Failure, Kind, Normalizer, named_in, numbered_in

MODEL = network([helper.make_node("Relu", ["x"], ["layer/conv:0"], name="conv1"),
                 helper.make_node("Add", ["layer/conv:0", "w"], ["Relu"], name="join")], ["Relu"])  # fmt: skip


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("node conv1 is refused", "node join is refused"),
        ("tensor 'layer/conv:0' has no type", "tensor 'x' has no type"),
        ("no kernel for conv1.", "no kernel for join."),
        ("/tmp/a/model.onnx: 3 of 5", "/home/b/candidate.onnx: 17 of 90"),
        ("at 0x7f00deadbeef", "at 0x1234"),
        ("shape [1,3,224,224] is odd", "shape [1, 8] is odd"),
        ("shape 1x3x224 is odd", "shape 7 is odd"),
        ("took 1.5e-3 s", "took 20 s"),
        ("two\nlines  of it", "two lines of it"),
    ],
)
def test_messages_that_differ_in_names_numbers_and_paths_are_equal(one: str, other: str):
    assert one != other
    assert Normalizer(MODEL)(one) == Normalizer(MODEL)(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Relu is refused", "Add is refused"),
        ("node conv1 is refused", "node conv1 is too large"),
        ("no kernel for float16", "no kernel for int8"),
        ("ValueError: conv1", "TypeError: conv1"),
        ("'unknown_name' is refused", "'other_name' is refused"),
    ],
)
def test_other_errors_stay_apart(one: str, other: str):
    assert Normalizer(MODEL)(one) != Normalizer(MODEL)(other)


def test_a_number_in_a_word_is_part_of_it():
    assert Normalizer(MODEL)("int8 in sm86") == "int8 in sm86"


def test_a_failure_is_like_another_if_it_has_its_first_reason():
    whole = Failure(Kind.REFUSED, "parse", ("A", "B"), "")
    assert Failure(Kind.REFUSED, "parse", ("C", "A"), "").is_like(whole)
    assert not Failure(Kind.REFUSED, "parse", ("B",), "").is_like(whole)
    assert not Failure(Kind.REFUSED, "build", ("A",), "").is_like(whole)
    assert not Failure(Kind.EXIT, "parse", ("A",), "").is_like(whole)
    crash = Failure(Kind.SIGNAL, "SIGSEGV", (), "")
    assert Failure(Kind.SIGNAL, "SIGSEGV", (), "").is_like(crash)
    assert not Failure(Kind.SIGNAL, "SIGABRT", (), "").is_like(crash)
    assert not Failure(Kind.TIMEOUT, "", (), "").is_like(crash)


def test_nodes_are_found_in_a_message_by_name_and_number():
    names = ["conv1", "layer/conv:0", "Relu", "x"]
    assert named_in("node 'conv1' reads layer/conv:0: refused", names) == {"conv1", "layer/conv:0"}
    assert named_in("conv10 and xx", names) == set()
    assert numbered_in("In node 37 with name: Relu; node 'number 4' and node #5; 12 nodes 9") == {37, 4, 5}


def test_names_of_bodies_and_weights_are_known():
    body = helper.make_graph([helper.make_node("Relu", ["x"], ["inner"], name="deep")], "b", [], [
        onnx.ValueInfoProto(name="inner")])  # fmt: skip
    owner = helper.make_node("If", ["c"], ["y"], then_branch=body, else_branch=body)
    model = network([owner], ["y"])
    assert Normalizer(model)("deep inner") == "* *"
