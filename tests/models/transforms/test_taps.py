"""Tapped copies return inner tensors, and everything else as before."""

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator
from support.qdq import LOOP_AND_BRANCHES, pair_model, text_model

from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.view import GraphView
from qdqtool.models.graph.model import Model, Transformed
from qdqtool.models.running.ort_cpu import Session
from qdqtool.models.transforms.taps import Hop, Taps, hop_into, tap_tensors

X = np.array([1.1, -2.3, 3.7], np.float32)


def tap_all(model: Model) -> Transformed[Taps]:
    index = ModelIndex.of(model)
    values = [value for value in index.view.values() if value.producer is not None]
    return tap_tensors(index.view, values, index.types.elem_type)


def feeds(*, branch: bool = True, trips: int = 3) -> dict[str, np.ndarray]:
    return {"x": X, "c": np.array(branch), "n": np.array(trips, np.int64)}


def run(model: Model, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    with Session(model) as session:
        return session.run(inputs)


@pytest.mark.parametrize("branch", [True, False])
def test_outputs_keep_their_bits_with_every_tensor_tapped(branch: bool) -> None:
    model = text_model(LOOP_AND_BRANCHES)
    before = run(model, feeds(branch=branch))
    after = run(tap_all(model).model, feeds(branch=branch))
    for name, array in before.items():
        assert after[name].tobytes() == array.tobytes()


def test_the_original_is_not_changed() -> None:
    model = text_model(LOOP_AND_BRANCHES)
    before = model.proto.SerializeToString(deterministic=True)
    tap_all(model)
    assert model.proto.SerializeToString(deterministic=True) == before


def test_every_tensor_of_branches_loops_and_functions_is_reached() -> None:
    tapped = tap_all(text_model(LOOP_AND_BRANCHES))
    assert tapped.report.unreachable == {}
    assert {name for _, name in tapped.report.places} >= {"tq", "eq", "lq", "ld", "fq", "fd", "y", "z"}


def test_a_branch_is_read_when_it_is_taken_and_empty_when_not() -> None:
    tapped = tap_all(text_model(LOOP_AND_BRANCHES))
    then, other = (tapped.report.places[("y.then_branch",), "tq"][0], tapped.report.places[("y.else_branch",), "eq"][0])
    taken = run(tapped.model, feeds(branch=True))
    assert taken[then.output].tolist() == [2, -5, 7]  # 1.1/.5 = 2.2, -2.3/.5 = -4.6, 3.7/.5 = 7.4
    assert taken[other.output].size == 0
    assert run(tapped.model, feeds(branch=False))[other.output].tolist() == [-2, 5, -7]


def test_a_loop_tensor_is_stacked_by_iteration() -> None:
    tapped = tap_all(text_model(LOOP_AND_BRANCHES))
    tap = tapped.report.places[("z.body",), "more"][0]
    assert tap.stacked == 1
    found = run(tapped.model, feeds(trips=3))[tap.output]
    value = X
    for iteration in range(3):
        assert found[iteration].tolist() == (value + np.float32(1)).tolist()
        halves = np.rint((value + 1) / np.float32(0.5)) * np.float32(0.5)
        quarters = np.rint(halves / np.float32(0.25)) * np.float32(0.25)
        value = 2 * quarters
    assert run(tapped.model, feeds(trips=0))[tap.output].size == 0


def test_a_function_is_read_at_each_call_with_the_loop_around_it() -> None:
    tapped = tap_all(text_model(LOOP_AND_BRANCHES))
    (tap,) = tapped.report.places[("my::Twice",), "fq"]
    assert (tap.hops, tap.stacked) == ((Hop("z.body"), Hop("vo", is_call=True)), 1)


def test_values_agree_with_the_reference_evaluator() -> None:
    tapped = tap_all(text_model(LOOP_AND_BRANCHES))
    names = list(dict.fromkeys(tap.output for taps in tapped.report.places.values() for tap in taps))
    ours = run(tapped.model, feeds())
    theirs = ReferenceEvaluator(tapped.model.proto).run(names, feeds())
    for name, array in zip(names, theirs, strict=True):
        # the evaluator gives stacked scalars an axis more
        assert ours[name].ravel().tolist() == np.asarray(array).ravel().tolist(), name


NESTED = """
<ir_version: 10, opset_import: ["": 21, "my": 1]>
g (float[2] x) => (float[2] y)
{
  a = my.Outer (x)
  b = my.Inner (a)
  y = my.Outer (b)
}
<domain: "my", opset_import: ["": 21, "my": 1]>
Outer (p) => (q)
{
  r = my.Inner (p)
  q = my.Inner (r)
}
<domain: "my", opset_import: ["": 21]>
Inner (u) => (w)
{
  t = Neg (u)
  one = Constant <value = float {1.0}> ()
  w = Add (t, one)
}
"""


def test_nested_calls_give_one_tap_for_each_way_in() -> None:
    tapped = tap_all(text_model(NESTED))
    taps = tapped.report.places[("my::Inner",), "t"]
    assert len(taps) == 5
    results = run(tapped.model, {"x": np.array([3.0, 5.0], np.float32)})
    # Inner(u) = 1 - u flips between 3, 5 and -2, -4; t = -u
    expected = {("a", "r"): [-3, -5], ("a", "q"): [2, 4], ("b",): [-3, -5], ("y", "r"): [2, 4], ("y", "q"): [-3, -5]}
    assert all(hop.is_call for tap in taps for hop in tap.hops)
    assert {tuple(hop.label for hop in tap.hops): results[tap.output].tolist() for tap in taps} == expected


SCAN = """
<ir_version: 10, opset_import: ["": 21]>
g (float[3,2] x) => (float[2] last, float[3,2] all)
<float[2] start = {0.0, 0.0}>
{
  last, all = Scan <
    num_scan_inputs = 1, scan_output_axes = [0],
    body = b (float[2] sum, float[2] row) => (float[2] total, float[2] copy) {
      twice = Add (row, row)
      total = Add (sum, twice)
      copy = Identity (total)
    }
  > (start, x)
}
"""


def test_scan_bodies_are_stacked_and_their_axes_list_grows() -> None:
    tapped = tap_all(text_model(SCAN))
    x = np.arange(6, dtype=np.float32).reshape(3, 2)
    found = run(tapped.model, {"x": x})
    (twice,) = tapped.report.places[("last.body",), "twice"]
    assert found[twice.output].tolist() == (2 * x).tolist()
    (total,) = tapped.report.places[("last.body",), "total"]
    assert found[total.output].tolist() == np.cumsum(2 * x, axis=0).tolist()


def test_four_bit_tensors_are_widened_exactly() -> None:
    tapped = tap_all(pair_model(onnx.TensorProto.INT4, scale=1.0))
    (tap,) = tapped.report.places[(), "q"]
    found = run(tapped.model, {"x": np.array([-9, -8, -1, 0, 3, 7, 8], np.float32)})
    assert found[tap.output].dtype == np.int8
    assert found[tap.output].tolist() == [-8, -8, -1, 0, 3, 7, 7]


UNCALLED = NESTED.replace("y = my.Outer (b)", "y = Neg (b)").replace("a = my.Outer (x)", "a = my.Inner (x)")


def test_a_function_that_nothing_calls_is_not_reached_and_says_why() -> None:
    tapped = tap_all(text_model(UNCALLED))
    assert tapped.report.unreachable[("my::Outer",), "r"] == "function my::Outer is never called"
    run(tapped.model, {"x": np.zeros(2, np.float32)})


def test_a_function_that_calls_itself_ends_with_a_reason() -> None:
    model = text_model(NESTED.replace("t = Neg (u)", "t = my.Inner (u)"))
    reasons = tap_all(model).report.unreachable
    assert reasons[("my::Inner",), "t"] == "function my::Inner calls itself"


def test_a_branch_tensor_of_unknown_type_is_not_reached() -> None:
    view = GraphView(text_model(LOOP_AND_BRANCHES))
    value = view.scope(("y.then_branch",)).values["tq"]
    tapped = tap_tensors(view, [value], lambda _: None)
    assert "type is unknown" in tapped.report.unreachable[("y.then_branch",), "tq"]
    assert tapped.report.places == {}


def test_a_name_that_is_taken_is_not_used() -> None:
    model = text_model(LOOP_AND_BRANCHES.replace("more", "qdqtool_tap_0"))
    before = run(model, feeds())
    after = run(tap_all(model).model, feeds())
    assert after["z"].tobytes() == before["z"].tobytes()


DEEP = """
<ir_version: 10, opset_import: ["": 21]>
g (float[2] x, bool c, int64 n) => (float[2] y)
<bool yes = {1}>
{
  y = Loop (n, yes, x) <body = outer (int64 i, bool go, float[2] v) => (bool gone, float[2] w) {
    gone = Identity (go)
    w = If (c) <
      then_branch = t () => (float[2] r) {
        r = Loop (n, yes, v) <body = inner (int64 j, bool on, float[2] p) => (bool off, float[2] q) {
          off = Identity (on)
          deep = Add (p, p)
          q = Neg (deep)
        }>
      },
      else_branch = e () => (float[2] s) { s = Abs (v) }
    >
  }>
}
"""


def test_hops_go_from_the_outermost_body_inwards_and_loops_count() -> None:
    tapped = tap_all(text_model(DEEP))
    ((path, name),) = [key for key in tapped.report.places if key[1] == "deep"]
    (tap,) = tapped.report.places[path, name]
    assert [hop.label for hop in tap.hops] == list(path)
    assert [hop.label.split(".")[1] for hop in tap.hops] == ["body", "then_branch", "body"]
    assert (tap.stacked, any(hop.is_call for hop in tap.hops)) == (2, False)
    x = np.array([1.0, -3.0], np.float32)
    found = run(tapped.model, {"x": x, "c": np.array(True), "n": np.array(2, np.int64)})
    # each inner step makes p to -2 * p
    assert found[tap.output].tolist() == [[(2 * x).tolist(), (-4 * x).tolist()], [(8 * x).tolist(), (-16 * x).tolist()]]
    assert found["y"].tolist() == (16 * x).tolist()


def test_outputs_of_the_graph_are_read_where_they_are() -> None:
    model = text_model(DEEP)
    tapped = tap_all(model)
    assert tapped.report.places[(), "y"][0].output == "y"
    assert [value.name for value in tapped.model.proto.graph.output].count("y") == 1


def test_a_tensor_that_is_asked_for_twice_is_read_once() -> None:
    view = GraphView(text_model(DEEP))
    value = next(value for value in view.values() if value.name == "deep")
    tapped = tap_tensors(view, [value, value], lambda _: onnx.TensorProto.FLOAT)
    assert len(tapped.model.proto.graph.output) == 2
    unknown = tap_tensors(view, [value, value], lambda _: None)
    assert unknown.report.unreachable == {
        (value.scope.path, "deep"): "it is in a branch of If, and its type is unknown"
    }


def test_a_tensor_behind_one_that_is_asked_for_twice_is_read() -> None:
    view = GraphView(text_model(DEEP))
    values = {value.name: value for value in view.values()}
    asked = [values["deep"], values["deep"], values["y"]]
    places = tap_tensors(view, asked, lambda _: onnx.TensorProto.FLOAT).report.places
    assert [name for _, name in places] == ["deep", "y"]


def test_a_body_of_an_unknown_operator_is_not_entered() -> None:
    model = text_model(
        """<ir_version: 10, opset_import: ["": 21, "my": 1]> g (float[2] x) => (float[2] y) {
            y = my.Scan <body = b (float[2] v) => (float[2] w) { u = Neg (v) w = Abs (u) }> (x) }"""
    )
    tapped = tap_all(model)
    assert set(tapped.report.unreachable.values()) == {"it is in a body of Scan, which cannot return more outputs"}
    assert tapped.model.proto.graph.node == model.proto.graph.node


@pytest.mark.parametrize("name", ["BFLOAT16", "FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ"])
def test_floats_that_numpy_lacks_are_widened_exactly(name: str) -> None:
    number = onnx.TensorProto.DataType.Value(name)
    text = f"""<ir_version: 10, opset_import: ["": 21]> g (float[3] x) => (float[3] y) {{
        small = Cast <to = {number}> (x)
        y = Cast <to = 1> (small)
    }}"""
    tapped = tap_all(text_model(text))
    found = run(tapped.model, {"x": np.array([1.0, -1.0625, 3.9], np.float32)})
    (tap,) = tapped.report.places[(), "small"]
    assert found[tap.output].dtype == np.float32
    assert found[tap.output].tolist() == found["y"].tolist()


OLD_SCAN = """
<ir_version: 4, opset_import: ["": 9]>
g (float[3,2] x) => (float[2] last, float[3,2] all) <float[2] start = {0.0, 0.0}>
{
  last, all = Scan <num_scan_inputs = 1, body = b (float[2] sum, float[2] row) => (float[2] total, float[2] copy) {
      twice = Add (row, row)
      total = Add (sum, twice)
      copy = Identity (total)
    }> (start, x)
}
"""


@pytest.mark.parametrize(
    ("opset", "reason"), [(9, None), (8, "it is in a body of Scan, which cannot return more outputs")]
)
def test_a_scan_with_a_batch_axis_is_not_entered(opset: int, reason: str | None) -> None:
    tapped = tap_all(text_model(OLD_SCAN.replace('"": 9', f'"": {opset}')))
    assert tapped.report.unreachable.get((("last.body",), "twice")) == reason
    if reason is None:
        (tap,) = tapped.report.places[("last.body",), "twice"]
        x = np.arange(6, dtype=np.float32).reshape(3, 2)
        assert run(tapped.model, {"x": x})[tap.output].tolist() == (2 * x).tolist()
    else:
        before = GraphView(text_model(OLD_SCAN.replace('"": 9', '"": 8'))).model.proto
        assert tapped.model.proto.graph.node == before.graph.node


OMITTED = """
<ir_version: 10, opset_import: ["": 21, "my": 1]>
g (float[2] x, int64 n) => (float[2] y, float[2] z)
<bool yes = {1}>
{
  y = my.Two (x)
  z = Loop (n, yes, x, x) <body = b (int64 i, bool go, float[2] v, float[2] u) => (bool gone, float[2] w, float[2] t) {
    gone = Identity (go)
    h = Add (v, u)
    w = Neg (h)
    t = Abs (v)
  }>
}
<domain: "my", opset_import: ["": 21]>
Two (p) => (q, r) { half = Neg (p) q = Exp (half) r = Abs (half) }
"""


def test_omitted_outputs_in_front_of_a_new_one_get_names() -> None:
    tapped = tap_all(text_model(OMITTED))
    assert tapped.report.unreachable == {}
    x = np.array([1.0, -3.0], np.float32)
    found = run(tapped.model, {"x": x, "n": np.array(2, np.int64)})
    assert found["z"].tolist() == (2 * x - abs(x)).tolist()
    values = {name: found[taps[0].output].tolist() for (_, name), taps in tapped.report.places.items()}
    assert values["half"] == (-x).tolist()
    assert values["r"] == abs(x).tolist()
    assert values["h"] == [(2 * x).tolist(), (abs(x) - 2 * x).tolist()]


@pytest.mark.parametrize("calls", [1024, 1025])
def test_at_most_1024_places_of_a_tensor_are_read(calls: int) -> None:
    model = text_model("""<ir_version: 10, opset_import: ["": 21, "my": 1]>
    g (float[2] x) => (float[2] y) { y = my.Inner (x) }
    <domain: "my", opset_import: ["": 21]> Inner (u) => (w) { t = Neg (u) w = Abs (t) }""")
    for number in range(1, calls):
        model.proto.graph.node.add(op_type="Inner", domain="my", input=["x"], output=[f"c{number}"])
    view = GraphView(model)
    report = tap_tensors(view, [view.scope(("my::Inner",)).values["t"]], lambda _: onnx.TensorProto.FLOAT).report
    key = (("my::Inner",), "t")
    assert len({tap.hops for tap in report.places[key]}) == 1024
    reason = "its function is called in 1025 ways; the first 1024 are read"
    assert report.unreachable == ({key: reason} if calls == 1025 else {})


def test_a_call_leads_into_its_function_and_other_nodes_into_none() -> None:
    view = GraphView(text_model(NESTED))
    call, inner = view.main.nodes[0], view.scope(("my::Inner",)).nodes[0]
    scope = view.called(call)
    assert scope is not None
    assert scope.path == ("my::Outer",)
    assert hop_into(scope, call) == Hop("a", is_call=True)
    assert view.called(inner) is None
