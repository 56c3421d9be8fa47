"""Specialized models compute what the originals do for inputs of those shapes, without dead branches."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper, parser
from support.small import run
from support.trt_verdict import TrtOracle

from qdqtool.errors import UsageError
from qdqtool.models.graph.io.load import load_model
from qdqtool.models.graph.io.save import save_model
from qdqtool.models.graph.model import Model
from qdqtool.models.graph.scope import walk
from qdqtool.models.transforms.specialize import require_fitting, specialize


def special(text_or_proto, **shapes):
    """The specialized model, checked in full."""
    proto = parser.parse_model(text_or_proto) if isinstance(text_or_proto, str) else text_or_proto
    before = proto.SerializeToString()
    result = specialize(Model(proto), shapes).model.proto
    assert proto.SerializeToString() == before
    onnx.checker.check_model(result, full_check=True)
    return proto, result


def assert_same_outputs(before, after, *feeds):
    for feed in feeds:
        for old, new in zip(run(before, feed), run(after, feed), strict=True):
            assert old.shape == new.shape
            np.testing.assert_array_equal(old, new)


def floats(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def op_types(model):
    return [node.op_type for _, container in walk(model) for node in container.node]


def dims(values):
    """The shape of each input or output: numbers, or names where they are not fixed."""
    return [[dim.dim_value or dim.dim_param for dim in each.type.tensor_type.shape.dim] for each in values]


HEAD = '<ir_version: 8, opset_import: ["": 17]>\n'

FLATTEN = (
    HEAD
    + """
g (float[n,c,h] x) => (float[n,k] y) <int64[1] last = {-1}, int64 zero = {0}, int64[1] axes = {0}> {
    [shape] s = Shape (x)
    [first] n1 = Gather (s, zero)
    [up] n2 = Unsqueeze (n1, axes)
    [join] target = Concat <axis = 0> (n2, last)
    [flat] r = Reshape (x, target)
    [act] y = Relu (r)
}
"""
)


def test_shape_arithmetic_becomes_an_initializer():
    before, after = special(FLATTEN, x=(2, 3, 4))
    assert op_types(after) == ["Reshape", "Relu"]
    stored = {tensor.name: numpy_helper.to_array(tensor) for tensor in after.graph.initializer}
    assert {name: array.tolist() for name, array in stored.items()} == {"target": [2, -1]}
    assert_same_outputs(before, after, {"x": floats(2, 3, 4)})


def test_inputs_and_outputs_carry_the_shapes():
    _, after = special(FLATTEN, x=(2, 3, 4))
    assert dims([*after.graph.input, *after.graph.output]) == [[2, 3, 4], [2, 12]]


def test_nothing_fixed_leaves_what_is_dynamic():
    before, after = special(FLATTEN)
    assert op_types(after) == op_types(before)


def test_a_symbol_is_fixed_wherever_it_stands_unless_two_extents_are_given():
    text = HEAD + "g (float[n,2] a, float[n,3] b, float[m] c) => (float[n,2] y) { y = Identity (a) }"
    _, after = special(text, a=(4, 2))
    assert dims(after.graph.input) == [[4, 2], [4, 3], ["m"]]
    text = HEAD + "g (float[n] a, float[n] b, float[n] c) => (float[n] y) { y = Identity (a) }"
    _, after = special(text, a=(4,), b=(1,))
    assert dims(after.graph.input)[2] == ["n"]


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ({"inptu": (1, 2)}, "'inptu' is no input of the model; the inputs are input; did you mean 'input'?"),
        ({"w": (2,)}, "'w' is no input"),
        ({"input": (1,)}, "has 2 dimensions; the shape 1 has 1"),
        ({"input": (1, 5)}, "dimension 1 of input 'input' is 2 in the model; the shape 1x5 has 5"),
        ({"input": (0, 2)}, "shape 0x2 of input 'input' has an extent below 1"),
        ({"input": ()}, "input 'input' has 2 dimensions; the shape scalar has 0"),
    ],
)
def test_wrong_shapes_are_named(shapes, message):
    proto = parser.parse_model(
        HEAD + "g (float[n,2] input) => (float[n,2] y) <float[2] w = {1,2}> { y = Add(input, w) }"
    )
    with pytest.raises(UsageError) as error:
        specialize(Model(proto), shapes)
    assert message in error.value.message


def test_an_input_without_a_shape_takes_the_given_one():
    proto = parser.parse_model(HEAD + "g (float[n] x, float[n] z) => (float[m] y) { y = Add (x, z) }")
    proto.graph.input[0].type.tensor_type.ClearField("shape")
    _, after = special(proto, x=(3,), z=(3,))
    assert dims([*after.graph.input, *after.graph.output]) == [[3]] * 3


def test_an_extent_of_one_is_one():
    _, after = special(HEAD + "g (float[n,1] x) => (float[n,m] y) { y = Relu (x) }", x=(1, 1))
    assert dims(after.graph.output) == [[1, 1]]


def test_an_input_that_is_no_tensor_has_no_shape():
    proto = parser.parse_model(HEAD + "g (seq(float[n]) x) => (float[m] y) { y = ConcatFromSequence <axis = 0> (x) }")
    with pytest.raises(UsageError, match="input 'x' is no tensor; it has no shape to fix"):
        specialize(Model(proto), {"x": (3,)})


def test_sequences_beside_fixed_inputs_are_left():
    text = (
        "g (float[n] x, seq(float[n]) s) => (float[n] y, float[m] z) { y = Relu (x) z = ConcatFromSequence<axis=0>(s) }"
    )
    before, after = special(HEAD + text, x=(3,))
    assert after.graph.input[1] == before.graph.input[1]


def test_types_that_are_not_completely_known_stay_as_declared():
    text = """g (float[n,3] x, float[k,3] z) => (float[a,b] y, float[c,d] w, float[e] v) {
        y = Concat <axis = 0> (x, z)
        w = Neg (x)
        v = my.Unknown (x)
    }"""
    proto = parser.parse_model(f'<ir_version: 8, opset_import: ["": 17, "my": 1]>{text}')
    after = specialize(Model(proto), {"x": (2, 3)}).model.proto
    assert dims(after.graph.output) == [["a", "b"], [2, 3], ["e"]]


def test_the_report_counts_the_nodes_of_all_bodies():
    report = specialize(Model(parser.parse_model(NESTED)), {"x": (2, 3)}).report
    assert (report.input_shapes, report.nodes_before, report.nodes_after) == ({"x": (2, 3)}, 22, 6)


NESTED = (
    HEAD
    + """
g (float[n,3] x, bool flag) => (float[a,b] y, float[c,d] z) <int64 one = {1}, int64 zero = {0}, int64 three = {3}> {
    s = Shape (x)
    rows = Gather (s, zero)
    cols = Gather (s, one)
    single = Equal (rows, one)
    many = Not (single)
    wide = Greater (cols, one)
    both = And (many, wide)
    [outer] y = If (both) <
        then_branch = t () => (float[a1,b1] out) {
            [kept] t = Neg (x)
            three_wide = Equal (cols, three)
            [inner] out = If (three_wide) <
                then_branch = tt () => (float[e,f] deep) { [deepest] deep = Add (t, x) },
                else_branch = te () => (float[e,f] deep) { deep = Sub (t, x) }
            >
        },
        else_branch = e () => (float[a2,b2] out2) { t = Abs (x) out2 = Mul (t, t) }
    >
    [second] z = If (both) <
        then_branch = t2 () => (float[c1,d1] out3) {
            t = Exp (x)
            [dynamic] out3 = If (flag) <
                then_branch = ft () => (float[g,h] r) { r = Add (t, t) },
                else_branch = fe () => (float[g,h] r) { r = Mul (t, x) }
            >
        },
        else_branch = e2 () => (float[c2,d2] out4) { t = Abs (x) out4 = Mul (t, t) }
    >
}
"""
)


@pytest.mark.parametrize("rows", [1, 2])
def test_nested_branches_with_names_in_common_are_inlined(rows):
    before, after = special(NESTED, x=(rows, 3))
    assert op_types(after).count("If") == (1 if rows == 2 else 0)
    assert "Equal" not in op_types(after)
    feeds = [{"x": floats(rows, 3), "flag": np.array(flag)} for flag in (True, False)]
    assert_same_outputs(before, after, *feeds)


def test_moved_nodes_keep_their_names_and_notes():
    proto = parser.parse_model(NESTED)
    outer = next(node for node in proto.graph.node if node.name == "outer")
    kept = outer.attribute[0].g.node[0]
    kept.doc_string = "why"
    kept.metadata_props.add(key="layer", value="7")
    _, after = special(proto, x=(2, 3))
    found = next(node for node in after.graph.node if node.name == "kept")
    assert (found.doc_string, found.metadata_props[0].value) == ("why", "7")
    assert [node.name for node in after.graph.node] == ["kept", "deepest", "", "dynamic"]


def branches(then, otherwise, *, ir_version=8, extra=""):
    """A model with one If that takes its first branch when x has two rows."""
    text = f"""<ir_version: {ir_version}, opset_import: ["": 17]>
    g (float[n,2] x) => (float[n,2] y) <int64 two = {{2}}, int64 zero = {{0}}> {{
        {extra}
        s = Shape (x)
        rows = Gather (s, zero)
        pick = Equal (rows, two)
        a, b = If (pick) <then_branch = t () => ({then[0]}) {then[1]},
                          else_branch = e () => ({otherwise[0]}) {otherwise[1]}>
        y = Add (a, b)
    }}"""
    return parser.parse_model(text)


OTHER = ("float[n,2] c, float[n,2] d", "{ c = Neg (x) d = Abs (x) }")


@pytest.mark.parametrize(
    "then",
    [
        ("float[n,2] c, float[n,2] d", "{ c = Exp (x) d = Identity (c) }"),
        ("float[n,2] c, float[n,2] d", "<float[2,2] c = {1,2,3,4}> { d = Add (x, c) }"),
        ("float[n,2] c, float[n,2] d", "<float[2,2] c = {1,2,3,4}, float[2,2] d = {4,3,2,1}> { }"),
    ],
    ids=["chain", "initializer as output", "no nodes"],
)
@pytest.mark.parametrize("rows", [2, 3])
def test_branch_outputs_of_every_kind(then, rows):
    before, after = special(branches(then, OTHER), x=(rows, 2))
    assert "If" not in op_types(after)
    assert_same_outputs(before, after, {"x": floats(rows, 2)})


def test_one_tensor_returned_twice():
    proto = branches(("float[n,2] c, float[n,2] d", "{ c = Exp (x) d = Neg (x) }"), OTHER)
    conditional = next(node for node in proto.graph.node if node.op_type == "If")
    conditional.attribute[0].g.output[1].name = "c"
    after = specialize(Model(proto), {"x": (2, 2)}).model.proto
    onnx.checker.check_model(after, full_check=True)
    x = floats(2, 2)
    np.testing.assert_array_equal(run(after, {"x": x})[0], run_exp_twice(x))


def run_exp_twice(x):
    text = HEAD + "g (float[2,2] x) => (float[2,2] y) { e = Exp (x) y = Add (e, e) }"
    return run(parser.parse_model(text), {"x": x})[0]


def test_a_branch_that_returns_a_tensor_from_outside():
    proto = branches(("float[n,2] c, float[n,2] d", "{ c = Exp (x) d = Neg (x) }"), OTHER, extra="o = Sqrt (x)")
    conditional = next(node for node in proto.graph.node if node.op_type == "If")
    conditional.attribute[0].g.output[1].name = "o"
    del conditional.attribute[0].g.node[1]
    after = specialize(Model(proto), {"x": (2, 2)}).model.proto
    onnx.checker.check_model(after, full_check=True)
    assert op_types(after) == ["Sqrt", "Exp", "Identity", "Add"]
    other = specialize(Model(proto), {"x": (3, 2)}).model.proto
    assert op_types(other) == ["Neg", "Abs", "Add"]


def test_initializers_of_a_branch_raise_an_old_ir_version():
    then = ("float[n,2] c, float[n,2] d", "<float[2,2] w = {1,2,3,4}> { c = Add (x, w) d = Neg (x) }")
    proto = branches(then, OTHER, ir_version=3)
    for tensor in proto.graph.initializer:
        proto.graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
    after = specialize(Model(proto), {"x": (2, 2)}).model.proto
    assert after.ir_version == 4
    assert "w" in [tensor.name for tensor in after.graph.initializer]


def test_branches_in_loops_and_functions_are_inlined():
    text = """<ir_version: 8, opset_import: ["": 17, "my": 1]>
    g (float[n,2] x, int64 times) => (float[n,2] y) <bool yes = {1}> {
        l = Loop (times, yes, x) <body = b (int64 i, bool c, float[n,2] v) => (bool co, float[n,2] w) {
            co = Identity (c)
            w = my.Pick (v)
        }>
        y = my.Pick (l)
    }
    <domain: "my", opset_import: ["": 17]>
    Pick (a) => (b) {
        always = Constant <value = bool {1}> ()
        b = If (always) <
            then_branch = t () => (float[n,2] r) <float[2] w = {0.5, 0.25}> { r = Add (a, w) },
            else_branch = e () => (float[n,2] r) { r = Neg (a) }
        >
    }
    """
    before, after = special(text)
    assert op_types(after) == ["Loop", "Pick", "Identity", "Pick", "Constant", "Add"]
    assert_same_outputs(before, after, {"x": floats(2, 2), "times": np.array(3, np.int64)})


def test_small_float_results_of_shapes_are_folded_and_weights_are_not():
    text = (
        HEAD
        + """
    g (float[n,4] x) => (float[n,4] y) <int64 one = {1}, float[2,2] half = {1,2,3,4}, int64[1] four = {4}> {
        s = Shape (x)
        width = Gather (s, one)
        f = Cast <to = 1> (width)
        root = Sqrt (f)
        flat = Reshape (half, four)
        scaled = Div (x, root)
        y = Add (scaled, flat)
    }
    """
    )
    before, after = special(text, x=(3, 4))
    assert op_types(after) == ["Reshape", "Div", "Add"]
    assert_same_outputs(before, after, {"x": floats(3, 4)})


def test_a_dynamic_dimension_keeps_its_arithmetic():
    before, after = special(NESTED)
    assert op_types(after).count("If") == op_types(before).count("If")
    assert_same_outputs(before, after, {"x": floats(2, 3), "flag": np.array(True)})


CALLED_TWICE = """<ir_version: 8, opset_import: ["": 17, "my": 1]>
g (float[n,2] x, float[m,4] z) => (float[a,b] y, float[c,d] w) {
    y = my.Raise <by = 1> (x)
    w = my.Raise <by = 3> (z)
}
<domain: "my", opset_import: ["": 17]>
Raise <by> (a) => (b) {
    amount = Constant <value_int: int = @by> ()
    real = Cast <to = 1> (amount)
    s = Shape (a)
    wide = Expand (real, s)
    b = Add (a, wide)
}
"""


def test_a_function_is_not_specialized_for_one_of_its_calls():
    before, after = special(CALLED_TWICE, x=(2, 2), z=(3, 4))
    assert op_types(after) == op_types(before)
    assert_same_outputs(before, after, {"x": floats(2, 2), "z": floats(3, 4)})


def random_model(seed):
    """Ifs in Ifs, whose conditions are constant, by shape or by input, and whose branches share tensor names."""
    rng = np.random.default_rng(seed)
    conditions = ("flag", "by_shape", "always", "never")

    def body(depth, inputs, output):
        nodes, known = [], list(inputs)
        for name in rng.choice(["p", "q", "r", "s"], size=2, replace=False):
            if name in known:
                continue
            nodes.append(step(depth, known, str(name)))
            known.append(str(name))
        nodes.append(helper.make_node("Add", [known[-1], str(rng.choice(known))], [output]))
        return nodes

    def step(depth, known, name):
        if depth == 0 or rng.random() < 0.3:
            return helper.make_node(str(rng.choice(["Neg", "Abs", "Sin"])), [str(rng.choice(known))], [name])
        parts = {}
        for attribute in ("then_branch", "else_branch"):
            output = f"{name}_{'o' * depth}"
            info = helper.make_tensor_value_info(output, TensorProto.FLOAT, ["n", 2])
            parts[attribute] = helper.make_graph(body(depth - 1, [*known], output), attribute, [], [info])
        return helper.make_node("If", [str(rng.choice(conditions))], [name], **parts)

    head = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Gather", ["shape", "zero"], ["rows"]),
        helper.make_node("Equal", ["rows", "two"], ["by_shape"]),
        helper.make_node("Not", ["always"], ["never"]),
    ]
    arrays = {"zero": np.array(0), "two": np.array(2), "always": np.array(True)}
    graph = helper.make_graph(
        head + body(3, ["x"], "y"),
        "g",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 2]),
            helper.make_tensor_value_info("flag", TensorProto.BOOL, []),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 2])],
        [numpy_helper.from_array(array, name) for name, array in arrays.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("seed", range(12))
def test_random_nests_compute_the_same(seed):
    before, after = special(random_model(seed), x=(2 + seed % 2, 2))
    remaining = [node for _, container in walk(after) for node in container.node if node.op_type == "If"]
    assert all(node.input[0] == "flag" for node in remaining)
    feeds = [{"x": floats(2 + seed % 2, 2), "flag": np.array(flag)} for flag in (True, False)]
    assert_same_outputs(before, after, *feeds)


ADDED = """
<ir_version: 8, opset_import: ["": 17]>
g (float[a] x, float[b] z) => (float[4] y) <float[c] s> { s = Concat <axis = 0> (x, x)  y = Add (s, z) }
"""


def test_shapes_that_do_not_fit_together_are_refused_with_the_node():
    model = Model(onnx.parser.parse_model(ADDED))
    for shapes in ({}, {"x": (4,)}, {"x": (4,), "z": (8,)}, {"x": (4,), "z": (1,)}):
        require_fitting(model, shapes)
    with pytest.raises(UsageError, match="do not fit together at Add node 'Add -> y': Incompatible dimensions"):
        require_fitting(model, {"x": (4,), "z": (4,)})


SILERO = {"input": (1, 576), "state": (2, 1, 128)}


@pytest.mark.real
@pytest.mark.parametrize("shapes", [SILERO, {"input": (1, 576)}], ids=["all", "shared batch"])
def test_the_voice_detector_loses_its_branches_and_no_bit(real_model, shapes, tmp_path):
    if not real_model.stem.startswith("silero"):
        pytest.skip("it has no If")
    save_model(specialize(load_model(real_model), shapes).model, tmp_path / "m.onnx")
    after = onnx.load(tmp_path / "m.onnx")
    onnx.checker.check_model(after, full_check=True)
    assert "If" not in op_types(after)
    feeds = [
        {"input": floats(1, 576, seed=seed), "state": floats(2, 1, 128, seed=seed), "sr": np.array(16000)}
        for seed in range(3)
    ]
    assert_same_outputs(str(real_model), after, *feeds)


@pytest.mark.real
@pytest.mark.builder
def test_the_voice_detector_builds_only_when_specialized(real_model, tmp_path):
    if not real_model.stem.startswith("silero"):
        pytest.skip("it has no If")
    save_model(specialize(load_model(real_model), SILERO).model, tmp_path / "m.onnx")
    oracle = TrtOracle()
    try:
        assert not oracle.judge(onnx.load(real_model)).accepted
        assert oracle.judge(onnx.load(tmp_path / "m.onnx")).accepted
    finally:
        oracle.close()
