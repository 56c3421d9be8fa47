from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from support.operator_cases import CASES, REFUSED, OperatorCase
from support.rawdiff import changed_fields
from support.real_feeds import real_feeds
from support.rich_model import DOMAIN, rich_feeds, rich_model
from support.small import run

from qdqtool.errors import ModelError, UsageError
from qdqtool.models.graph.index.view import GraphView
from qdqtool.models.graph.io.load import load_model
from qdqtool.models.graph.io.tensors import make_tensor
from qdqtool.models.graph.model import Model
from qdqtool.models.graph.scope import walk
from qdqtool.models.transforms.converter_faults import encode
from qdqtool.models.transforms.opset import NEWEST_IR, require_known_opset, upgrade_opset

TARGETS = [13, 19, 21, 23]
RELU = "g (float[4] x) => (float[4] y) { y = Relu(x) }"


def text_model(text: str, opset: int = 11) -> Model:
    return Model(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": {opset}, "com.example": 1]> {text}'))


def assert_same_outputs(before: onnx.ModelProto, after: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> None:
    assert_equal(run(before, feeds), run(after, feeds))


def assert_equal(before: list[np.ndarray], after: list[np.ndarray]) -> None:
    for expected, found in zip(before, after, strict=True):
        assert expected.dtype == found.dtype
        assert np.array_equal(expected, found, equal_nan=expected.dtype.kind == "f")


def imports(proto: onnx.ModelProto | onnx.FunctionProto) -> dict[str, int]:
    return {entry.domain: entry.version for entry in proto.opset_import}


class TestOperators:
    """No bit changes, wherever the node stands."""

    @pytest.mark.parametrize("case", CASES, ids=str)
    def test_in_the_main_graph(self, case: OperatorCase) -> None:
        self.check(case, case.in_main_graph(), TARGETS)

    @pytest.mark.parametrize("case", CASES, ids=str)
    def test_in_a_body_that_captures_its_inputs(self, case: OperatorCase) -> None:
        self.check(case, case.in_branch(), TARGETS[-1:])

    @pytest.mark.parametrize("case", [case for case in CASES if case.fits_function()], ids=str)
    def test_in_a_function_that_knows_no_types(self, case: OperatorCase) -> None:
        self.check(case, case.in_function(), TARGETS[-1:])

    def check(self, case: OperatorCase, before: onnx.ModelProto, versions: list[int]) -> None:
        expected = run(before, case.feeds())
        for version in versions:
            if version > case.opset:
                upgraded = upgrade_opset(Model(before), version).model
                assert upgraded.default_opset() == version
                assert_equal(expected, run(upgraded.proto, case.feeds()))

    @pytest.mark.parametrize(("case", "version"), REFUSED, ids=str)
    def test_what_would_change_is_refused_by_name(self, case: OperatorCase, version: int) -> None:
        model = Model(case.in_main_graph())
        if case.opset < version - 1:
            assert upgrade_opset(model, version - 1).model.default_opset() == version - 1
        with pytest.raises(ModelError, match=f"node '{case.op} -> o0' \\({case.op}\\) cannot be converted") as caught:
            upgrade_opset(model, version)
        assert "\n" not in caught.value.message
        assert caught.value.hint

    def test_average_pooling_is_left_as_it_is(self) -> None:
        """ONNX Runtime's kernels of opset 19 and of 11 differ in the last bit, so outputs prove nothing here."""
        model = text_model("g (float[1,2,6,6] x) => (float[1,2,4,4] y) { y = AveragePool<kernel_shape = [3,3]>(x) }")
        upgraded = upgrade_opset(model, 19).model
        assert set(changed_fields(model.proto, upgraded.proto)) <= {
            "opset_import[].version",
            "ir_version",
            "+graph.node[y].attribute[ceil_mode]",
            "+graph.node[y].attribute[count_include_pad]",
        }


class TestRealModels:
    @pytest.mark.real
    @pytest.mark.parametrize("version", TARGETS)
    def test_no_bit_changes(self, real_model: Path, version: int) -> None:
        model = load_model(real_model)
        upgraded = upgrade_opset(model, version).model
        onnx.checker.check_model(upgraded.proto)
        assert upgraded.default_opset() == max(version, model.default_opset())
        assert upgraded.proto.ir_version <= NEWEST_IR
        assert_same_outputs(model.proto, upgraded.proto, real_feeds(model.proto))


class TestRichModel:
    @pytest.mark.parametrize("version", [19, 21, 23])
    @pytest.mark.parametrize("opset", [13, 15])
    def test_no_bit_changes(self, opset: int, version: int) -> None:
        before = rich_model(opset=opset)
        snapshot = before.SerializeToString(deterministic=True)
        after = upgrade_opset(Model(before), version).model.proto
        onnx.checker.check_model(after)
        for flag in (True, False):
            assert_same_outputs(before, after, rich_feeds(flag=flag))
        assert before.SerializeToString(deterministic=True) == snapshot

    def test_only_nodes_that_must_change_do(self) -> None:
        before = rich_model()
        loop = "graph.node[loop_state,loop_trace].attribute[body].g"
        scaled = f"functions[{DOMAIN}::Block:scaled]"
        functions = ["Activate:", "Block:", "Block:scaled", "Choose:"]
        assert changed_fields(before, upgrade_opset(Model(before), 18).model.proto) == sorted(
            [
                "opset_import[].version",
                *(f"functions[{DOMAIN}::{name}].opset_import[].version" for name in functions),
                *(
                    change.format(scope=scope, node=node)
                    for scope, node in (("graph", "pooled"), (loop, "loop_mean"), (scaled, "mean"))
                    for change in (
                        "+{scope}.node[{node}_Constant_Output]",
                        "-{scope}.node[{node}].attribute[axes]",
                        "{scope}.node[{node}].input",
                    )
                ),
            ]
        )

    def test_everything_that_imports_the_domain_is_raised(self) -> None:
        after = upgrade_opset(Model(rich_model()), 21).model.proto
        assert imports(after) == {"": 21, DOMAIN: 1, "com.microsoft": 1, "com.example.unused": 7}
        assert [imports(function) for function in after.functions] == [{"": 21, DOMAIN: 1}] * 4

    def test_a_function_that_is_ahead_stays(self) -> None:
        before = rich_model()
        before.functions[0].opset_import[0].version = 22
        after = upgrade_opset(Model(before), 21).model.proto
        assert after.functions[0] == before.functions[0]

    def test_a_function_without_the_default_domain_stays(self) -> None:
        before = rich_model()
        forward = helper.make_function(
            DOMAIN,
            "Forward",
            ["data"],
            ["result"],
            [helper.make_node("Activate", ["data"], ["result"], domain=DOMAIN)],
            [helper.make_opsetid(DOMAIN, 1)],
        )
        before.functions.append(forward)
        assert upgrade_opset(Model(before), 21).model.proto.functions[-1] == forward

    def test_the_same_model_gives_the_same_bytes(self) -> None:
        first, second = (upgrade_opset(Model(rich_model()), 21).model.proto for _ in range(2))
        assert first.SerializeToString(deterministic=True) == second.SerializeToString(deterministic=True)

    def test_sparse_initializers_are_refused_by_name(self) -> None:
        with pytest.raises(ModelError, match="'w_sparse' is a sparse constant") as caught:
            upgrade_opset(Model(rich_model(sparse=True)), 21)
        assert "dense" in str(caught.value.hint)


class TestVersions:
    @pytest.mark.parametrize("version", [0, 9, 11])
    def test_a_version_that_is_reached_changes_nothing(self, version: int) -> None:
        model = text_model(RELU)
        assert upgrade_opset(model, version).model is model

    def test_a_version_that_onnx_does_not_know_is_refused(self) -> None:
        with pytest.raises(UsageError, match="opset 999 is unknown"):
            upgrade_opset(text_model(RELU), 999)

    @pytest.mark.parametrize(
        ("version", "before", "after"), [(13, 3, 7), (19, 3, 9), (21, 3, 10), (23, 3, 11), (28, 3, 13), (19, 12, 12)]
    )
    def test_the_ir_version_fits_the_opset_and_onnx_runtime(self, version: int, before: int, after: int) -> None:
        model = text_model(RELU)
        model.proto.ir_version = before
        assert upgrade_opset(model, version).model.proto.ir_version == after

    def test_the_domain_may_be_spelled_out(self) -> None:
        model = text_model("g (float[2,3] x) => (float[3] y) { y = ReduceSum<axes = [0], keepdims = 0>(x) }")
        model.proto.opset_import[0].domain = "ai.onnx"
        model.proto.graph.node[0].domain = "ai.onnx"
        after = upgrade_opset(model, 13).model.proto
        assert imports(after) == {"ai.onnx": 13, "com.example": 1}
        assert [len(node.input) for node in after.graph.node] == [0, 2]


class TestNames:
    def test_names_that_the_converter_would_make_up_are_safe(self) -> None:
        """``_v_5`` and ``y_intermediate`` are what it calls new tensors; the model has them already."""
        model = text_model(
            "g (float[2,1,4] x, float[1,4] _v_4, float[1,4] _v_5, bool c)"
            " => (float[2,1,4] y, float[2,1,4] y_intermediate, float[4] z) {"
            "  y = Softmax(x)  y_intermediate = Relu(x)"
            "  z = If(c) <then_branch = t () => (float[4] a) { s = Squeeze<axes = [0]>(_v_5)  a = Add(s, _v_4) },"
            " else_branch = e () => (float[4] b) { b = Squeeze<axes = [0]>(_v_4) }> }"
        )
        feeds = {
            "x": np.random.default_rng(1).standard_normal((2, 1, 4)).astype(np.float32),
            "_v_4": np.arange(4, dtype=np.float32).reshape(1, 4),
            "_v_5": np.ones((1, 4), np.float32),
        }
        upgraded = upgrade_opset(model, 13).model.proto
        for choice in (True, False):
            assert_same_outputs(model.proto, upgraded, {**feeds, "c": np.array(choice)})

    def test_new_names_tell_what_they_belong_to_and_are_free(self) -> None:
        model = text_model(
            "g (float[2,1,4] x, float[4] y_Constant_Output) => (float[2,4] y, float[2,1,4] p)"
            " { [y_Constant] p = Softmax(x)  y = Squeeze<axes = [1]>(x) }"
        )
        nodes = upgrade_opset(model, 13).model.proto.graph.node
        assert [(node.op_type, node.name, node.output[0]) for node in nodes] == [
            ("Flatten", "p_Flatten", "p_Flatten_Output"),
            ("Softmax", "p_Softmax", "p_Softmax_Output"),
            ("Shape", "p_Shape", "p_Shape_Output"),
            ("Reshape", "y_Constant", "p"),
            ("Constant", "y_Constant_1", "y_Constant_Output_1"),
            ("Squeeze", "", "y"),
        ]

    def test_constants_that_the_converter_stores_are_named_and_added(self) -> None:
        model = text_model("g (float[4] x) => (float[6] y) { y = Pad<pads = [1, 1]>(x) }", opset=10)
        graph = upgrade_opset(model, 13).model.proto.graph
        assert list(graph.node[-1].input)[:2] == ["x", "y_constant"]
        assert numpy_helper.to_array(graph.initializer[0]).tolist() == [1, 1]

    def test_branches_may_use_the_same_names(self) -> None:
        model = text_model(
            "g (float[1,4] x, bool c) => (float[4] y) {"
            "  y = If(c) <then_branch = t () => (float[4] a) { k = Neg(x)  a = Squeeze<axes = [0]>(k) },"
            " else_branch = e () => (float[4] a) { k = Abs(x)  a = Squeeze<axes = [0]>(k) }> }"
        )
        upgraded = upgrade_opset(model, 13).model.proto
        for choice in (True, False):
            feeds = {"x": np.array([[1, -2, 3, -4]], np.float32), "c": np.array(choice)}
            assert_same_outputs(model.proto, upgraded, feeds)


class TestPlaces:
    def test_bodies_of_other_domains_are_converted_too(self) -> None:
        model = text_model(
            "g (float[1,4] x) => (float[4] y) { y = com.example.Twice"
            "<body = b () => (float[4] a) { a = Squeeze<axes = [0]>(x) }>(x) }"
        )
        attribute = model.proto.graph.node[0].attribute[0]
        bodies = model.proto.graph.node[0].attribute.add(name="bodies", type=onnx.AttributeProto.GRAPHS)
        bodies.graphs.add().CopyFrom(attribute.g)
        scopes = dict(walk(upgrade_opset(model, 13).model.proto))
        for path in (("y.body",), ("y.bodies[0]",)):
            squeeze = scopes[path].node[-1]
            assert (squeeze.input[0], len(squeeze.input), list(squeeze.attribute)) == ("x", 2, [])

    def test_absent_inputs_and_outputs_stay_absent(self) -> None:
        model = text_model("g (float[2,1,4] x) => (float[1,1,3] h) { h = LSTM<hidden_size = 3>(x) }")
        node = model.proto.graph.node[0]
        node.input[:] = ["x", "w", "r", "", "", "x0"]
        node.output[:] = ["", "h"]
        for name, shape in (("w", (1, 12, 4)), ("r", (1, 12, 3)), ("x0", (1, 1, 3))):
            model.proto.graph.initializer.append(numpy_helper.from_array(np.full(shape, 0.1, np.float32), name))
        upgraded = upgrade_opset(model, 14).model.proto
        assert upgraded.graph.node[0].input == node.input
        assert upgraded.graph.node[0].output == node.output
        assert_same_outputs(model.proto, upgraded, {"x": np.ones((2, 1, 4), np.float32)})

    def test_a_function_attribute_that_a_node_passes_on_stays(self) -> None:
        before = rich_model(opset=13)
        after = upgrade_opset(Model(before), 21).model.proto
        leaky = next(node for node in after.functions[2].node if node.op_type == "LeakyRelu")
        assert leaky.attribute[0].ref_attr_name == "alpha"

    def test_a_function_attribute_that_would_have_to_be_known_is_refused(self) -> None:
        node = helper.make_node("Softmax", ["data"], ["result"])
        node.attribute.add(name="axis", type=onnx.AttributeProto.INT, ref_attr_name="axis")
        before = rich_model()
        before.functions.append(
            helper.make_function(
                DOMAIN, "Choice", ["data"], ["result"], [node], [helper.make_opsetid("", 11)], attributes=["axis"]
            )
        )
        with pytest.raises(ModelError, match=r"\(Softmax\) in com.example.blocks::Choice .* 'axis' is a parameter"):
            upgrade_opset(Model(before), 21)

    def test_a_sparse_constant_node_is_refused(self) -> None:
        model = text_model(
            "g (float[4] x) => (float[4] y) { c = Constant<value = float[4] {1,2,3,4}>()  y = Add(x, c) }"
        )
        attribute = model.proto.graph.node[0].attribute[0]
        attribute.Clear()
        attribute.name, attribute.type = "sparse_value", onnx.AttributeProto.SPARSE_TENSOR
        with pytest.raises(ModelError, match="'c' is a sparse constant"):
            upgrade_opset(model, 13)


class TestWeights:
    def test_the_converter_is_handed_no_large_constants(self) -> None:
        large = numpy_helper.from_array(np.ones(1 << 20, np.float32), "large")
        small = numpy_helper.from_array(np.ones(256, np.float32), "small")
        constant = helper.make_node("Constant", [], ["stored"], value=large)
        graph = onnx.GraphProto(name="g", node=[constant], initializer=[large, small])
        view = GraphView(Model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)])))
        stand_in = encode(view, view.main).graph
        assert stand_in.ByteSize() < 3000
        assert stand_in.initializer[1].raw_data == small.raw_data

    def test_large_constants_of_every_type_pass(self) -> None:
        kinds = [value for value in TensorProto.DataType.values() if value]
        graph = onnx.GraphProto(name="g")
        for kind in kinds:
            tensor = TensorProto(name=f"w{kind}", data_type=kind, dims=[10000])
            if kind == TensorProto.STRING:
                tensor.string_data.extend([b"text"] * 10000)
            else:
                tensor.raw_data = make_tensor("w", np.zeros(10000), kind).raw_data
            graph.initializer.append(tensor)
            graph.node.add(op_type="Identity", input=[tensor.name], output=[f"y{kind}"])
            graph.output.append(helper.make_tensor_value_info(f"y{kind}", kind, [10000]))
        before = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)], ir_version=13)
        after = upgrade_opset(Model(before), 26).model.proto
        assert changed_fields(before, after) == ["opset_import[].version"]

    def test_small_external_constants_are_read_and_large_ones_are_not(self, tmp_path: Path) -> None:
        model = text_model(
            "g (float[1,1,2,2] x) => (float[1,1,4,4] y)"
            " <float[4] s = {1,1,2,2}, float[4] large = {1,2,3,4}> { y = Upsample(x, s)  z = Relu(large) }",
            opset=9,
        )
        before = upgrade_opset(model, 13).model.proto
        scales, large = model.proto.graph.initializer
        (tmp_path / "data").write_bytes(numpy_helper.to_array(scales).tobytes())
        large.dims[0] = 1 << 30
        for tensor, location in ((scales, "data"), (large, "not there")):
            tensor.ClearField("float_data")
            tensor.ClearField("raw_data")
            tensor.data_location = TensorProto.EXTERNAL
            tensor.external_data.add(key="location", value=location)
        after = upgrade_opset(Model(model.proto, tmp_path / "model.onnx"), 13).model.proto
        assert after.graph.node == before.graph.node
        assert list(after.graph.initializer) == [scales, large]


def test_a_failure_that_no_single_node_shows_is_one_clear_line() -> None:
    model = text_model("g (float[2,3] x, float[4,5] z) => (float[2,3] y) { y = Add<broadcast = 1>(x, z) }", opset=6)
    with pytest.raises(ModelError, match=r"cannot be converted from opset 6 to 13: \S") as caught:
        upgrade_opset(model, 13)
    assert "\n" not in caught.value.message


def break_attribute(model: onnx.ModelProto) -> None:
    """The converter reads a list where a string is, and ends the process."""
    node = model.graph.node[0]
    node.op_type = "ReduceSum"
    node.attribute.add(name="axes", type=onnx.AttributeProto.STRING, s=b"0")


def add_body(model: onnx.ModelProto) -> None:
    model.graph.node[0].attribute.add(name="body", type=onnx.AttributeProto.GRAPH).g.name = "body"


def repeat_function(model: onnx.ModelProto) -> None:
    imports = [helper.make_opsetid("", 11)]
    function = helper.make_function(
        "com.example", "Twice", ["a"], ["b"], [helper.make_node("Relu", ["a"], ["b"])], imports
    )
    model.functions.extend([function, function])


BROKEN: dict[str, tuple[Callable[[onnx.ModelProto], object], str]] = {
    "attribute of the wrong type": (break_attribute, "attribute 'axes' of node 'ReduceSum -> y' .* has the wrong type"),
    "body where none belongs": (add_body, r"attribute 'body' of node 'Relu -> y' \(Relu\) has the wrong type"),
    "unknown operator": (
        lambda model: model.graph.node.add(op_type="Rleu", input=["x"], output=["z"]),
        r"'Rleu -> z' \(Rleu\) cannot be converted: opset 11 has no such operator",
    ),
    "opset that no integer holds": (
        lambda model: setattr(model.opset_import[0], "version", -(1 << 62)),
        "cannot be converted: opset -4611686018427387904 has no such operator",
    ),
    "name that nothing defines": (
        lambda model: model.graph.node.add(op_type="Relu", input=["nothing"], output=["z"]),
        "the main graph reads tensor 'nothing', which nothing defines",
    ),
    "name that is defined twice": (
        lambda model: model.graph.node.add(op_type="Relu", input=["x"], output=["y"]),
        "the main graph defines tensor 'y' twice",
    ),
    "missing input": (
        lambda model: model.graph.node.add(op_type="Unsqueeze", output=["z"]),
        r"'Unsqueeze -> z' \(Unsqueeze\) cannot be converted from opset 11 to 13: .*Input 0 is out of bounds",
    ),
    "function that is defined twice": (repeat_function, "the model defines 'com.example::Twice' twice"),
}


@pytest.mark.parametrize(("damage", "message"), BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_model_is_refused_in_one_line(damage: Callable[[onnx.ModelProto], object], message: str) -> None:
    model = text_model(RELU)
    damage(model.proto)
    with pytest.raises(ModelError, match=message) as caught:
        upgrade_opset(model, 13)
    assert "\n" not in caught.value.message


def test_a_node_without_outputs_is_left_alone() -> None:
    model = text_model(RELU)
    model.proto.graph.node.add(op_type="Print", domain="com.example", input=["x"])
    assert upgrade_opset(model, 13).model.proto.graph.node == model.proto.graph.node


def test_types_of_tensors_that_are_no_more_do_no_harm() -> None:
    model = text_model(RELU)
    model.proto.graph.value_info.add(name="gone")
    assert changed_fields(model.proto, upgrade_opset(model, 13).model.proto) == ["opset_import[].version"]


def test_opsets_are_known_up_to_the_newest_of_onnx() -> None:
    newest = onnx.defs.onnx_opset_version()
    require_known_opset(text_model(RELU, newest))
    with pytest.raises(ModelError) as caught:
        require_known_opset(text_model(RELU, newest + 1))
    assert caught.value.message == (
        f"the model imports opset {newest + 1}; onnx {onnx.__version__} knows versions up to {newest}"
    )
    assert caught.value.hint == "export at a lower opset, or update the onnx package"


def test_the_newest_opset_can_be_reached() -> None:
    newest = onnx.defs.onnx_opset_version()
    after = upgrade_opset(text_model(RELU), newest).model.proto
    assert imports(after)[""] == newest
    assert after.ir_version <= NEWEST_IR


def test_functions_of_a_later_opset_and_of_other_operators_stay() -> None:
    """The axes of a ReduceSum are an input from opset 13 on."""
    model = text_model(
        """g (float[2,2] x) => (float[2] y) { a = com.example.later (x) y = com.example.other (a) }
        <domain: "com.example", opset_import: ["": 18]> later (p) => (q) {
            axes = Constant <value = int64[1] {0}> () q = ReduceMax <keepdims = 0> (p, axes) }
        <domain: "com.example", opset_import: ["com.example": 1]> other (p) => (q) { q = com.example.Neg (p) }"""
    )
    after = upgrade_opset(model, 17).model.proto
    assert imports(after)[""] == 17
    assert after.functions == model.proto.functions


def test_a_main_graph_of_calls_alone_imports_the_opset() -> None:
    model = text_model(
        """g (float[2] x) => (float[2] y) { y = com.example.f (x) }
        <domain: "com.example", opset_import: ["": 11]> f (p) => (q) { q = Neg (p) }"""
    )
    del model.proto.opset_import[0]
    after = upgrade_opset(model, 17).model.proto
    assert imports(after) == {"com.example": 1, "": 17}
    assert imports(after.functions[0]) == {"": 17}
