import pytest

from qdqtool.accuracy.search.steps import require_valid
from qdqtool.errors import GateError
from qdqtool.linting import rules
from qdqtool.models.graph.model import Model


@pytest.mark.parametrize("lossy", [set(), {("", "x")}, {("body", "r")}])
def test_an_unfillable_range_is_refused_unless_its_tensor_is_known_to_be_lost(lossy: set[tuple[str, str]]):
    model = Model(rules.get("QN504").INVALID[0].model())

    with pytest.raises(GateError, match="QN504"):
        require_valid(model, model, "tensorrt", lossy)
    assert "QN504" in {each.code for each in require_valid(model, model, "tensorrt", {*lossy, ("", "r")})}


def test_a_tensor_that_is_known_to_be_lost_may_have_no_other_error():
    model = Model(rules.get("QP101").INVALID[0].model())
    tensors = {("", name) for node in model.proto.graph.node for name in (*node.input, *node.output)}

    with pytest.raises(GateError, match="QP101"):
        require_valid(model, model, "tensorrt", tensors)
