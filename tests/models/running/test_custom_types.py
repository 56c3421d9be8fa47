from pathlib import Path

import onnx
from onnx import TensorProto
from support.custom_ops import between, in_a_body, in_a_function, library, stand_in

from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.model import Model
from qdqtool.models.running.custom_operators import named_operators, without_functions
from qdqtool.models.running.custom_types import with_known_types


def unknown(model: Model) -> set[str]:
    """Tensors without a type, of every scope."""
    index = ModelIndex.of(model)
    return {value.name for value in index.view.values() if index.elem_type(value) is None}


def test_tensors_behind_a_custom_operator_get_types() -> None:
    model = Model(between())
    assert unknown(model) == {"n", "p", "c", "d"}
    assert with_known_types(model) is model
    with named_operators([library()]):
        known = with_known_types(model)
    assert unknown(known) == set()
    assert unknown(model) == {"n", "p", "c", "d"}
    assert {info.name: info.type.tensor_type.elem_type for info in known.proto.graph.value_info} == dict.fromkeys(
        "np", TensorProto.FLOAT
    )


def test_a_stand_in_gives_shapes_too_and_chains_are_followed(tmp_path: Path) -> None:
    proto = between("Twice", "acme", ("b",))
    second = onnx.helper.make_node("Twice", ["b"], ["b2"], domain="acme")
    proto.graph.node.insert(2, second)
    proto.graph.node[3].input[0] = "b2"
    with named_operators(stand_in=stand_in(tmp_path / "f.onnx")):
        index = ModelIndex.of(with_known_types(Model(proto)))
    assert index.types.shape(index.view.main.values["d"]) == (4, 16)


def test_bodies_are_not_forgotten_and_functions_become_nodes() -> None:
    for make in (in_a_body, in_a_function):
        with named_operators([library()]):
            plain = without_functions(Model(make()))
            assert unknown(with_known_types(plain.model)) == set()
    assert [(each.function, each.calls) for each in plain.report] == [("own::Block", 2)]
    assert without_functions(Model(in_a_function())).report == ()


def test_a_node_that_cannot_be_loaded_stays_unknown_and_the_search_ends() -> None:
    with named_operators([library()]):
        assert "b" in unknown(with_known_types(Model(between("Absent", "acme", ("b",)))))


def test_models_of_known_operators_stay_the_same() -> None:
    proto = between("Relu", "", ("b",))
    model = Model(proto)
    with named_operators([library()]):
        assert with_known_types(model) is model
