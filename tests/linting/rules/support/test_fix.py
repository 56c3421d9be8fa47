"""What a fix writes: constants with the documentation of those that they replace, and payloads of the right size."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto as T
from support.fixing import read

from qdqtool.linting.rules import Draft, RuleContext, UnfitError
from qdqtool.linting.rules.support.fix import shaped
from qdqtool.models.graph.edits.naming import Namer
from qdqtool.models.graph.edits.surgeon import apply_edits
from qdqtool.models.graph.index.view import Value
from qdqtool.models.graph.io.save import inlined
from qdqtool.models.graph.io.tensors import payload_of
from qdqtool.models.graph.model import Model

MODEL = """
    agraph (float[3] x, float[3] t) => (float[3] y, float[3] c) <float[3] w = {1, 2, 3}> {
        a = Add (x, w)
        c = Mul (a, w)
        y = Add (a, x)
    }
"""


def draft_of(documented: bool = False) -> Draft:
    context = read(MODEL)
    if documented:
        (weight,) = context.model.proto.graph.initializer
        weight.doc_string = "from the paper"
        weight.metadata_props.add(key="layer", value="7")
    return Draft(context, Namer(context.view))


def stored(model: Model, name: str) -> onnx.TensorProto:
    (found,) = [each for each in model.proto.graph.initializer if each.name == name]
    return found


def notes(tensor: onnx.TensorProto) -> tuple[str, dict[str, str]]:
    return tensor.doc_string, {each.key: each.value for each in tensor.metadata_props}


NOTES = ("from the paper", {"layer": "7"})


@pytest.mark.parametrize(("documented", "expected"), [(True, NOTES), (False, ("", {}))])
def test_constants_carry_the_notes_of_those_that_they_replace(documented: bool, expected: object):
    draft = draft_of(documented)
    scope = draft.context.view.main
    weight = stored(draft.context.model, "w")
    like = shaped(weight, T.INT8)

    names = [
        draft.constant(scope, "w", np.ones(2), T.FLOAT),
        draft.weights(scope, "w", like, lambda: np.array([4, 5, 6])),
    ]
    changed = apply_edits(draft.context.model, draft.edits)

    assert names == ["w_1", "w_2"]
    assert (like.data_type, list(like.dims), like.HasField("raw_data")) == (T.INT8, [3], False)
    assert [notes(each) for each in (like, *(stored(changed, name) for name in names))] == [expected] * 3
    assert stored(changed, "w_1").HasField("doc_string") == documented


@pytest.mark.parametrize("name", ["nowhere", "x", "a"])
def test_a_constant_in_the_place_of_none_has_no_notes(name: str):
    draft = draft_of(documented=True)
    fresh = draft.constant(draft.context.view.main, name, np.ones(2), T.FLOAT)

    assert notes(stored(apply_edits(draft.context.model, draft.edits), fresh)) == ("", {})


@pytest.mark.parametrize("kind", [T.FLOAT, T.FLOAT16, T.INT8, T.INT4, T.UINT4, T.FLOAT4E2M1, T.INT2, T.FLOAT8E4M3FN])
@pytest.mark.parametrize("shape", [(), (1,), (3,), (3, 5), (4, 2), (0, 4)])
def test_the_size_of_a_payload_is_that_of_its_bytes(kind: int, shape: tuple[int, ...]):
    draft = draft_of()
    name = draft.weights(
        draft.context.view.main, "new", onnx.TensorProto(data_type=kind, dims=shape), lambda: np.ones(shape)
    )

    payload = payload_of(draft.context.model, draft.edits[0].tensor)  # type: ignore[union-attr]
    assert payload.nbytes == len(payload.make())
    changed = inlined(apply_edits(draft.context.model, draft.edits))
    assert changed is not None
    array = onnx.numpy_helper.to_array(stored(Model(changed), name))
    assert array.shape == shape
    assert np.all(array.astype(np.float64) == 1)


def value(context: RuleContext, name: str) -> Value:
    return context.view.main.values[name]


def test_all_readers_of_a_tensor_read_another():
    draft = draft_of()
    draft.replace(value(draft.context, "a"), "t")

    changed = apply_edits(draft.context.model, draft.edits).proto
    assert [list(node.input) for node in changed.graph.node] == [["x", "w"], ["t", "w"], ["t", "x"]]


def test_an_output_of_the_graph_keeps_its_name():
    draft = draft_of()
    with pytest.raises(UnfitError, match="'c' is an output"):
        draft.replace(value(draft.context, "c"), "t")

    assert draft.edits == []
