"""The largest magnitude of a tensor is what was measured, or follows from constants and operators that move values."""

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from onnx import numpy_helper, parser
from onnx.reference import ReferenceEvaluator

from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.model import Model
from qdqtool.models.options import HalfType
from qdqtool.models.transforms.half.magnitudes import MAX_DEPTH, Magnitudes, find_infinity_constants, largest

HEAD = '<ir_version: 10, opset_import: ["": 21]>'
DOUBLES = arrays.arrays(np.float64, st.integers(0, 6), elements=st.floats(allow_nan=True, allow_infinity=True))
TEXT = """
g (float[3] x) => (float[3] y) <float[3] w = {1, -7.5, 3}, float s = {0.5}, int8 z = {0}, uint8 u = {0}> {
    moved = Identity (x)
    again = Reshape (moved, shape)
    back = Identity (w)
    changed = Exp (x)
    after = Identity (changed)
    q = QuantizeLinear (x, s, z)
    d = DequantizeLinear (q, s, z)
    e = QuantizeLinear (x, s, u)
    f = DequantizeLinear (e, s, u)
    copied = Identity (d)
    open = DequantizeLinear (q, x, z)
    y = Identity (again)
}
"""


def magnitudes(measured: dict[str, float] | None = None, text: str = TEXT) -> dict[str, float | None]:
    model = Model(parser.parse_model(HEAD + text))
    model.proto.graph.initializer.append(onnx.numpy_helper.from_array(np.array([3]), "shape"))
    index = ModelIndex.of(model)
    found = Magnitudes({((), name): value for name, value in (measured or {}).items()}, index)
    return {value.name: found.of(value) for value in index.view.values()}


def test_constants_and_codes_are_known_without_a_measurement() -> None:
    found = magnitudes()
    assert {name: found[name] for name in ("w", "back")} == {"w": 7.5, "back": 7.5}
    assert {name: found[name] for name in ("d", "copied", "f")} == {"d": 64.0, "copied": 64.0, "f": 127.5}
    assert all(found[name] is None for name in ("x", "moved", "again", "y", "changed", "after", "open"))


def test_a_measurement_counts_more_and_moves_on() -> None:
    found = magnitudes({"x": 3.0, "w": 2.0, "d": 0.0, "changed": 20.0})
    assert all(found[name] == 3.0 for name in ("x", "moved", "again", "y"))
    assert (found["w"], found["d"], found["copied"]) == (2.0, 0.0, 0.0)
    assert (found["changed"], found["after"]) == (20.0, 20.0)


@pytest.mark.parametrize("steps", [MAX_DEPTH, MAX_DEPTH + 1])
def test_long_rows_are_followed_up_to_a_limit(steps: int) -> None:
    rows = "\n".join(f"m{number + 1} = Identity (m{number})" for number in range(steps))
    model = Model(parser.parse_model(HEAD + f"g (float[3] m0) => (float[3] m{steps}) {{ {rows} }}"))
    index = ModelIndex.of(model)
    found = Magnitudes({((), "m0"): 5.0}, index).of(index.view.main.values[f"m{steps}"])
    assert found == (5.0 if steps == MAX_DEPTH else None)


def test_a_cycle_is_unknown() -> None:
    found = magnitudes(text="g (float[3] x) => (float[3] y) { a = Identity (b) b = Identity (a) y = Identity (b) }")
    assert (found["a"], found["b"], found["y"]) == (None, None, None)


@given(DOUBLES)
def test_the_largest_is_that_of_the_finite_elements(array: np.ndarray) -> None:
    assert largest(array) == max((abs(float(each)) for each in array if np.isfinite(each)), default=0.0)


def test_finite_elements_may_be_further_apart_than_any_number() -> None:
    limits = np.finfo(np.float64)
    assert largest(np.array([limits.min, 1.0, limits.max])) == limits.max


@given(arrays.arrays(np.int64, st.integers(0, 6), elements=st.integers(-(2**40), 2**40)))
def test_integers_have_magnitudes_too(array: np.ndarray) -> None:
    assert largest(array) == max((abs(int(each)) for each in array), default=0)


CONSTANTS = """
    float low = {-1e9}, float high = {1e9}, float one = {1}, float[1,1] also_one = {1}, float two = {2},
    float[2] ones = {1, 1}, float[2] row = {0, -1e9}, float[2] line = {0, 1e9},
    float[2] both = {-1e9, 1e9}, float[2] some = {-1e9, 3},
    float last = {-16376}, float next = {-16377}, int64 minus = {-1000000}, int64[1] axes = {0}, int64[1] n = {2}
"""
WITH_FUNCTIONS = '<ir_version: 10, opset_import: ["": 21, "mine": 1]>'
GRAPH = "g (float[2,2] x, float[2,2] f, int64[2,2] m, bool[2,2] b) => (float[2,2] y) <{constants}> {{ {nodes} }}"


def model_of(nodes: str) -> onnx.ModelProto:
    model = parser.parse_model(WITH_FUNCTIONS + GRAPH.format(constants=CONSTANTS, nodes=nodes))
    model.graph.initializer.append(numpy_helper.from_array(np.float32(-np.inf), "inf"))
    return model


def names(model: onnx.ModelProto) -> tuple[set[str], set[str]]:
    found = find_infinity_constants(ModelIndex.of(Model(model)), HalfType.FP16.largest)
    return {value.name for value in found.roots}, {value.name for value in found.carried}


def outputs(model: onnx.ModelProto) -> np.ndarray:
    feeds = {
        "x": np.float32([[0.5, -3], [2, 7]]),
        "f": np.float32([[0, 1], [1, 0]]),
        "m": np.array([[1, 0], [0, 1]]),
        "b": np.array([[True, False], [False, True]]),
    }
    with np.errstate(divide="ignore"):  # The logarithm of the zeros of a Softmax.
        return ReferenceEvaluator(model).run(None, feeds)[0]


def clipped(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with every number cut to a quarter of what float16 holds."""
    cut = onnx.ModelProto()
    cut.CopyFrom(model)
    tensors = [*cut.graph.initializer]
    tensors += [attribute.t for node in cut.graph.node for attribute in node.attribute if attribute.HasField("t")]
    for tensor in tensors:
        array = np.clip(numpy_helper.to_array(tensor), -16376, 16376)
        tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
    return cut


@pytest.mark.parametrize(
    ("nodes", "roots", "carried"),
    [
        ("y = Clip (x, low, high)", "low high", ""),
        ("y = Max (low, x)", "low", ""),
        ("y = Max (x, low)", "low", ""),
        ("y = Min (high, x)", "high", ""),
        ("y = Min (x, high)", "high", ""),
        ("y = Max (x, some)", "some", ""),
        ("y = Max (x, next)", "next", ""),
        ("a = Add (x, row) y = Softmax (a)", "row", "a"),
        ("a = Add (row, x) s = LogSoftmax (a) y = Exp (s)", "row", "a"),
        ("a = Sub (x, line) y = Softmax (a)", "line", "a"),
        ("a = Sub (row, x) y = Softmax (a)", "row", "a"),
        ("a = Sub (low, x) y = Max (x, a)", "low", "a"),
        ("a = Sub (x, high) y = Max (x, a)", "high", "a"),
        ("a = Where (b, low, x) y = Softmax (a)", "low", "a"),
        ("a = Where (b, x, low) y = Softmax (a)", "low", "a"),
        ("a = Where (b, x, low) y = Max (x, a)", "low", "a"),
        ("a = Unsqueeze (row, axes) c = Add (a, x) y = Softmax (c)", "row", "a c"),
        ("a = Add (x, row) c = Slice (a, axes, n) d = Add (a, c) y = Softmax (d)", "row", "a c d"),
        ("l = Constant <value = float[2] {0, -1e9}> () a = Add (l, x) y = Softmax (a)", "l", "a"),
        ("l = Constant <value_float = -1e9> () a = Where (b, x, l) y = Softmax (a)", "l", "a"),
        ("l = ConstantOfShape <value = float[1] {-1e9}> (n) a = Where (b, l, x) y = Softmax (a)", "l", "a"),
        ("c = Cast <to = 1> (m) a = Mul (c, low) y = Max (x, a)", "low", "a"),
        ("c = Cast <to = 1> (b) a = Mul (low, c) d = Add (a, x) y = Softmax (d)", "low", "a d"),
        ("c = Cast <to = 1> (m) e = Transpose (c) a = Mul (e, low) d = Add (a, x) y = Softmax (d)", "low", "a d"),
        ("c = Sub (one, f) a = Mul (c, low) y = Max (x, a)", "low", "a"),
        ("c = Sub (also_one, f) a = Mul (c, low) d = Add (a, x) y = Softmax (d)", "low", "a d"),
        ("c = Sub (f, one) a = Mul (c, high) y = Max (x, a)", "high", "a"),
        ("a = Add (x, row) y = Softmax (a) c = Max (x, row)", "row", "a"),
    ],
)
def test_constants_that_represent_infinity_may_be_smaller(nodes: str, roots: str, carried: str) -> None:
    model = model_of(nodes)
    assert names(model) == (set(roots.split()), set(carried.split()))
    np.testing.assert_allclose(outputs(clipped(model)), outputs(model), atol=1e-6)


@pytest.mark.parametrize(
    "nodes",
    [
        # Bounds of the sign that has an effect, and constants that are bounded themselves.
        "y = Clip (x, high)",
        "y = Clip (x, low, low)",
        "y = Clip (low, one, two)",
        "y = Max (high, x)",
        "y = Max (x, high)",
        "y = Min (low, x)",
        "y = Min (x, low)",
        "y = mine.Max (x, low)",
        "y = mine.Clip (x, low, high)",
        # Numbers that are not huge, not all of one sign, not finite, or not float32.
        "y = Min (x, one)",
        "y = Max (x, last)",
        "y = Max (x, both)",
        "y = Min (x, both)",
        "y = Max (x, inf)",
        "a = Max (m, minus) y = Cast <to = 1> (a)",
        "l = Constant <value = double {-1e9}> () c = Cast <to = 11> (x) a = Max (c, l) y = Cast <to = 1> (a)",
        "l = ConstantOfShape (n) a = Add (l, x) y = Softmax (a)",
        "l = mine.ConstantOfShape <value = float[1] {-1e9}> (n) a = Add (l, x) y = Softmax (a)",
        # A constant that is computed from others has no stored number to cut.
        "e = Constant <value = float {10000}> () t = Neg (e) l = Mul (t, e) a = Add (l, x) y = Softmax (a)",
        # Positive numbers in front of a Softmax.
        "a = Add (x, high) y = Softmax (a)",
        "a = Sub (x, low) y = Softmax (a)",
        "a = Sub (high, x) y = Softmax (a)",
        "a = Sub (high, x) y = Max (x, a)",
        "c = Cast <to = 1> (m) a = Mul (c, high) d = Add (a, x) y = Softmax (d)",
        "c = Sub (one, f) a = Mul (c, high) d = Add (a, x) y = Softmax (d)",
        "c = Sub (f, one) a = Mul (c, low) d = Add (a, x) y = Softmax (d)",
        # Factors that are no mask.
        "a = Mul (f, low) y = Softmax (a)",
        "a = Mul (f, high) y = Softmax (a)",
        "a = Mul (f, low) y = Max (x, a)",
        "c = Exp (f) a = Mul (c, low) y = Softmax (a)",
        "d = Cast <to = 1> (m) c = Exp (d) a = Mul (c, low) y = Softmax (a)",
        "c = Sub (two, f) a = Mul (c, low) y = Softmax (a)",
        "c = Sub (ones, f) a = Mul (c, low) y = Softmax (a)",
        "c = Sub (f, two) a = Mul (c, high) y = Softmax (a)",
        "c = Sub (f, x) a = Mul (c, low) y = Softmax (a)",
        "c = Sub (f, x) a = Mul (c, high) y = Softmax (a)",
        # Uses that read the number itself, beside or behind harmless ones.
        "y = Exp (low)",
        "a = Add (x, low) s = Softmax (a) e = Exp (low) y = Add (s, e)",
        "a = Add (x, low) e = Exp (a) s = Softmax (a) y = Add (s, e)",
        "a = Add (x, low) c = Neg (a) y = Softmax (c)",
        "a = Add (x, low) s = Softmax (a) y = Transpose (a)",
        "y = Add (x, low)",
        "y = Identity (x) a = Add (x, low)",
        "c = Cast <to = 1> (m) d = Mul (c, low) e = Mul (f, low) a = Add (d, e) y = Softmax (a)",
        # The difference of two masks has both signs.
        """c = Cast <to = 1> (m) d = Cast <to = 1> (b) e = Mul (c, low) h = Mul (d, low) k = Sub (e, h)
           a = Add (x, k) y = Softmax (a)""",
    ],
)
def test_other_constants_are_numbers(nodes: str) -> None:
    assert names(model_of(nodes)) == (set(), set())


@pytest.mark.parametrize(("steps", "roots"), [(16, {"low"}), (17, set())])
def test_a_mask_is_followed_through_sixteen_operators(steps: int, roots: set[str]) -> None:
    moved = " ".join(f"t{number + 1} = Transpose (t{number})" for number in range(1, steps))
    assert names(model_of(f"t1 = Add (x, low) {moved} y = Softmax (t{steps})"))[0] == roots


def test_a_tensor_is_followed_once_from_where_it_is_first_reached() -> None:
    way = " ".join(f"p{number + 1} = Transpose (p{number})" for number in range(1, 6))
    rest = " ".join(f"t{number + 1} = Transpose (t{number})" for number in range(1, 13))
    roots, carried = names(
        model_of(f"s = Add (x, low) p1 = Add (low, x) {way} t1 = Add (s, p6) {rest} y = Softmax (t13)")
    )
    assert roots == {"low"}
    assert len(carried) == 1 + 6 + 13


@pytest.mark.parametrize(("steps", "roots"), [(15, {"low"}), (16, set())])
def test_flags_are_found_behind_fifteen_operators(steps: int, roots: set[str]) -> None:
    moved = " ".join(f"t{number + 1} = Transpose (t{number})" for number in range(steps))
    nodes = f"t0 = Cast <to = 1> (m) {moved} a = Mul (t{steps}, low) y = Softmax (a)"
    assert names(model_of(nodes))[0] == roots


def test_a_constant_that_is_returned_keeps_its_value() -> None:
    model = model_of("y = Max (x, low)")
    model.graph.output.add().CopyFrom(onnx.helper.make_tensor_value_info("low", onnx.TensorProto.FLOAT, ()))
    assert names(model) == (set(), set())


def test_a_number_beside_a_mask_that_is_returned_keeps_its_value() -> None:
    model = model_of("a = Add (x, low) y = Softmax (a)")
    model.graph.output.add().CopyFrom(onnx.helper.make_tensor_value_info("a", onnx.TensorProto.FLOAT, (2, 2)))
    assert names(model) == (set(), set())


@pytest.mark.parametrize(("inputs", "made"), [(["low"], ""), (["x", "low"], "a")])
def test_nodes_that_lack_operands_are_no_masks(inputs: list[str], made: str) -> None:
    model = model_of("y = Softmax (a)")
    model.graph.node.insert(0, onnx.helper.make_node("Mul" if made else "Transpose", inputs, [made]))
    assert names(model) == (set(), set())


def test_a_difference_that_lacks_an_operand_is_no_mask() -> None:
    model = model_of("a = Mul (c, low) y = Softmax (a)")
    model.graph.node.insert(0, onnx.helper.make_node("Sub", ["", "f"], ["c"]))
    assert names(model) == (set(), set())
