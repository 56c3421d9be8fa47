"""What a model would grow to is computed before anything runs; what is large and sane passes."""

import contextlib

import onnx
import onnx.parser
import pytest
from onnx import helper
from support import explosions
from support.explosions import concat, declared_small, expanded, in_function, loop, nested

from qdqtool.errors import ModelError, UsageError
from qdqtool.models.graph.index import growth
from qdqtool.models.graph.index.growth import require_bounded
from qdqtool.models.graph.model import Model

BYTES = 1 << 34
ONE_MORE = [helper.make_node("Concat", ["a", "x"], ["b"], axis=0)]
ALWAYS = [helper.make_node("Constant", [], ["goes"], value=helper.make_tensor("t", onnx.TensorProto.BOOL, [], [True]))]
FIRST = [
    helper.make_node("Cast", ["i"], ["later"], to=onnx.TensorProto.BOOL),
    helper.make_node("Not", ["later"], ["goes"]),
]
SAME = [helper.make_node("Neg", ["a"], ["b"])]
EXPLODE = {
    "concat": concat(34),
    "dynamic batch": concat(34, axis=0, rows="batch"),
    "declared small": declared_small(34),
    "in a function": in_function(34),
    "expand": expanded(1 << 40),
    "loop": loop(40),
    "constant condition": loop(40, goes=ALWAYS),
    "linear": loop(10**9, ONE_MORE),
    "stacked": loop(10**9, SAME, stacks=True),
    "nested loops": nested(14),
    "input": concat(1, rows=1 << 40),
}
SANE = {
    "concat": concat(12),
    "dynamic batch": concat(12, axis=0, rows="batch"),
    "in a function": in_function(12),
    "expand": expanded(1 << 20),
    "loop": loop(6),
    "linear": loop(1000, ONE_MORE),
    "stacked": loop(1000, SAME, stacks=True),
    "long": loop(10**9, SAME),
    "ends by a condition": loop(2**62, goes=FIRST),
    "nested loops": nested(3),
    "no body": explosions.loop(3),
}
SANE["no body"].graph.node[1].ClearField("attribute")


@pytest.fixture(autouse=True)
def memory(monkeypatch):
    """A machine with 16 GiB."""
    monkeypatch.setattr(growth, "machine_memory", lambda: BYTES)


@pytest.mark.parametrize("name", EXPLODE)
def test_a_tensor_that_would_not_fit_is_refused_with_its_size(name):
    with pytest.raises(
        ModelError, match=r"^tensor '\w+' is too large for this machine: \S+ GB; the limit is 4\.29 GB$"
    ):
        require_bounded(Model(EXPLODE[name]))


@pytest.mark.parametrize("name", SANE)
def test_a_sane_model_with_the_same_operators_passes_and_is_not_changed(name):
    before = SANE[name].SerializeToString()
    require_bounded(Model(SANE[name]))
    assert SANE[name].SerializeToString() == before


@pytest.mark.parametrize(("window", "is_refused"), [(1 << 10, False), (1 << 24, False), ((1 << 24) + 1, True)])
def test_a_window_that_a_pooling_would_visit_for_minutes_is_refused(window, is_refused):
    text = f"g (float[1, 1, 8] x) => (float y) {{ y = AveragePool <kernel_shape = [{window}]> (x) }}"
    model = Model(onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": 21]> {text}'))
    found = pytest.raises(ModelError, match="the window of the AveragePool that makes 'y' is too large: 16,777,217;")
    with found if is_refused else contextlib.nullcontext():
        require_bounded(model)


def test_the_shapes_are_those_of_the_data():
    model = Model(concat(20, axis=0, rows="batch"))
    require_bounded(model, {"x": (16, 4)})
    with pytest.raises(ModelError, match=r"tensor 'c19' is too large.*: 16\.8 GB"):
        require_bounded(model, {"x": (1000, 4)})
    del model.proto.graph.input[0].type.tensor_type.shape.dim[:]
    model.proto.graph.input[0].type.tensor_type.ClearField("shape")
    with pytest.raises(ModelError, match=r"tensor 'c19' is too large.*: 16\.8 GB"):
        require_bounded(model, {"x": (1000, 4)})


def test_the_user_raises_the_bound_by_the_factor_that_the_hint_names(monkeypatch):
    model = Model(concat(29))
    with pytest.raises(ModelError, match="GB") as caught:
        require_bounded(model)
    assert caught.value.hint is not None
    assert "QDQTOOL_BOUNDS=2," in caught.value.hint
    monkeypatch.setenv("QDQTOOL_BOUNDS", "1.5")
    with pytest.raises(ModelError, match=r"the limit is 6\.44 GB"):
        require_bounded(model)
    monkeypatch.setenv("QDQTOOL_BOUNDS", "2")
    require_bounded(model)
    for illegal in ("-1", "0", "many", "nan"):
        monkeypatch.setenv("QDQTOOL_BOUNDS", illegal)
        with pytest.raises(UsageError, match=f"QDQTOOL_BOUNDS is '{illegal}'; it must be a number above 0"):
            require_bounded(model)


def test_many_nested_loops_end_soon():
    inferred = growth._Growth()
    grown = nested(10**6)
    grown.graph.node[1].attribute[0].g.node[1].attribute[0].g.node[0].CopyFrom(helper.make_node("Neg", ["p"], ["q"]))
    inferred.check(grown)
    assert inferred.bodies <= growth.MOST_BODIES
