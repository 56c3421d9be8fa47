"""The edits that write an operator on codes as a float operator: its inputs, its scales and its bias."""

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import numpy_helper

from qdqtool.linting.repair.forms import find
from qdqtool.linting.rules import Draft, RuleContext, UnfitError
from qdqtool.models.graph.edits.edit import AddInitializer, AddNode, SetInput
from qdqtool.models.graph.edits.naming import Namer
from qdqtool.models.graph.model import Model

F = np.float32
CONV = "y = QLinearConv (x, xs, xz, w, ws, wz, ys, yz, b)"
MATMUL = "y = QLinearMatMul (x, xs, xz, w, ws, wz, ys, yz)"
SEVERAL = "it has several scales; a Q/DQ pair in their place can have only one"


def model(node: str, opset: int = 21, **constants: object) -> Model:
    header = f'<ir_version: 10, opset_import: ["": {opset}]>'
    proto = onnx.parser.parse_model(f"{header} g (uint8[1,2,3,3] x) => (uint8[] y) {{ {node} }}")
    weight = np.zeros((2, 2, 1, 1) if "Conv" in node else (3, 2), np.uint8)
    given: dict[str, object] = {"xs": F(0.5), "xz": 0, "w": weight, "ws": F(0.25), "wz": 0, "ys": F(2), "yz": 0}
    for name, value in (given | {"b": np.array([6, -7], np.int32)} | constants).items():
        array = np.asarray(value, None if isinstance(value, np.ndarray | np.generic) else np.uint8)
        proto.graph.initializer.append(numpy_helper.from_array(array, name))
    return Model(proto)


def written(given: Model) -> Draft:
    context = RuleContext(given)
    (proposal,) = (*find(context, "qlinear-conv"), *find(context, "qlinear-matmul"))
    draft = Draft(context, Namer(context.view))
    proposal.fixes[0].write(draft)
    return draft


def axes(draft: Draft) -> list[object]:
    """The axis of each DQ and Q; None where it has none."""
    return [edit.attributes.get("axis") for edit in draft.edits if isinstance(edit, AddNode)]


def bias(draft: Draft) -> list[float]:
    (added,) = [edit for edit in draft.edits if isinstance(edit, AddInitializer)]
    return [float(each) for each in numpy_helper.to_array(added.tensor)]


@pytest.mark.parametrize(("node", "kept"), [(CONV, 3), (MATMUL, 2)])
def test_each_input_is_set_once_and_the_others_are_left_out(node: str, kept: int):
    edits = [edit for edit in written(model(node)).edits if isinstance(edit, SetInput)]

    assert [edit.index for edit in edits] == list(range(9 if node == CONV else 8))
    assert [bool(edit.tensor) for edit in edits] == [index < kept for index in range(len(edits))]


def test_an_operator_that_makes_nothing_stays():
    given = model(MATMUL)
    given.proto.graph.node[0].output[0] = ""

    with pytest.raises(UnfitError, match=r"^it has no output$"):
        written(given)


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("opset", [12, 13, 21])
def test_several_scales_of_a_weight_need_an_axis(count: int, opset: int):
    given = model(CONV, opset, ws=np.full(count, 0.25, F), wz=np.zeros(count, np.uint8))
    if count > 1 and opset < 13:
        with pytest.raises(UnfitError, match=rf"^{SEVERAL}$"):
            written(given)
    else:
        assert axes(written(given)) == [None, 0 if count > 1 else None, None]


@pytest.mark.parametrize("shape", [(1, 2), (2, 1), (1, 1, 2)])
def test_scales_along_more_than_one_axis_are_none_of_a_pair(shape: tuple[int, ...]):
    with pytest.raises(UnfitError, match=rf"^{SEVERAL}$"):
        written(model(MATMUL, ws=np.full(shape, 0.25, F)))
    assert axes(written(model(MATMUL, ws=np.full((1, 1), 0.25, F)))) == [None] * 3


@pytest.mark.parametrize(
    ("data", "weight", "expected"),
    [
        (0.5, 0.25, [0.75, -0.875]),
        ([0.5], [0.25], [0.75, -0.875]),
        ([0.5], [0.25, 0.5], [0.75, -1.75]),
        ([0.5, 0.5], 0.25, None),
        ([0.5, 0.5], [0.25, 0.5], None),
        (0.5, [0.25, 0.25, 0.25], None),
    ],
)
def test_the_scale_of_a_bias_is_the_product_of_those_of_data_and_weight(
    data: object, weight: object, expected: list[float] | None
):
    given = model(CONV, xs=np.asarray(data, F), ws=np.asarray(weight, F))
    if expected is None:
        with pytest.raises(UnfitError, match=r"^the number of its scales does not fit its bias$"):
            written(given)
    else:
        assert bias(written(given)) == expected
