"""Notes are set in a copy, keep their order, and cost nothing where they say what the model says already."""

from support.small import conv_model

from qdqtool.models.graph.io.metadata import read_metadata, with_metadata
from qdqtool.models.graph.model import Model
from qdqtool.models.payload import Payload


def noted(*notes: tuple[str, str]) -> Model:
    proto = conv_model()
    for key, value in notes:
        proto.metadata_props.add(key=key, value=value)
    return Model(proto, payloads={"w": Payload(1, lambda: b"1")})


def notes_of(model: Model) -> list[tuple[str, str]]:
    return [(entry.key, entry.value) for entry in model.proto.metadata_props]


def test_a_note_is_replaced_in_its_place_and_a_new_one_comes_last() -> None:
    given = noted(("a", "1"), ("b", "2"))
    assert notes_of(with_metadata(given, {"c": "3", "a": "4", "d": "5"})) == [
        *(("a", "4"), ("b", "2"), ("c", "3"), ("d", "5"))
    ]


def test_a_note_is_removed_as_often_as_it_stands_there() -> None:
    assert notes_of(with_metadata(noted(("a", "1"), ("b", "2"), ("a", "3")), {"a": None})) == [("b", "2")]


def test_the_given_model_is_not_changed_and_its_payloads_are_shared() -> None:
    given = noted(("a", "1"))
    before = given.proto.SerializeToString(deterministic=True)
    result = with_metadata(given, {"a": "2", "b": "3"})
    assert given.proto.SerializeToString(deterministic=True) == before
    assert result.payloads == given.payloads
    assert result.payloads is not given.payloads


def test_nothing_is_copied_where_nothing_changes() -> None:
    given = noted(("a", "1"))
    assert with_metadata(given, {"a": "1", "b": None}) is given
    assert with_metadata(given, {}) is given


def test_what_is_written_is_read() -> None:
    assert read_metadata(with_metadata(noted(), {"a": "1"}), "a") == "1"
    assert read_metadata(noted(), "a") is None
