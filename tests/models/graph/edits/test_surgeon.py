"""Edits of a rich model as a whole: exactly the intended places change, and it computes what it should."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import onnx_ir
import pytest
from onnx import TensorProto, numpy_helper
from support.edited import BODIES, CHAIN, THEN_BODY, outputs_in_order, text_model
from support.rawdiff import changed_fields
from support.real_feeds import real_feeds
from support.rich_model import DOMAIN, rich_feeds, rich_model
from support.small import run

from qdqtool.errors import ModelError
from qdqtool.models.graph.edits import surgeon
from qdqtool.models.graph.edits.batch import EditError, sort_edits
from qdqtool.models.graph.edits.edit import (
    AddInitializer,
    AddNode,
    Edit,
    RemoveInitializer,
    RemoveNode,
    RenameOutput,
    SetDomain,
    SetInput,
    SetNodeName,
    SetOperator,
)
from qdqtool.models.graph.edits.naming import Namer
from qdqtool.models.graph.edits.surgeon import apply_edits, check_batches
from qdqtool.models.graph.index.view import GraphView, Scope, Value
from qdqtool.models.graph.io.load import load_model
from qdqtool.models.graph.io.tensors import make_tensor, pending_tensor
from qdqtool.models.graph.model import Model
from qdqtool.models.graph.scope import MAIN, ScopePath
from qdqtool.models.payload import Payload

THEN = ("features.then_branch",)
ELSE = ("features.else_branch",)
BLOCK = (f"{DOMAIN}::Block",)
CHOOSE_NEGATIVE = (f"{DOMAIN}::Choose", "result.else_branch")


def pair(scope: ScopePath, source: str, output: str, mark: str) -> list[Edit]:
    """Q and DQ from ``source`` to ``output`` with constants of their own."""
    scale, zero, codes = f"{mark}_scale", f"{mark}_zero_point", f"{mark}_codes"
    return [
        AddInitializer(scope, make_tensor(scale, np.float32(0.01), TensorProto.FLOAT)),
        AddInitializer(scope, make_tensor(zero, np.int8(0), TensorProto.INT8)),
        AddNode(scope, "QuantizeLinear", (source, scale, zero), (codes,), f"{mark}_Q"),
        AddNode(scope, "DequantizeLinear", (codes, scale, zero), (output,), f"{mark}_DQ"),
    ]


def packed_weight(model: onnx.ModelProto) -> list[Edit]:
    """The weight that two branches share, as int8 with one DQ in the main graph."""
    shared = next(tensor for tensor in model.graph.initializer if tensor.name == "w_shared")
    codes = np.clip(np.rint(numpy_helper.to_array(shared) / np.float32(0.01)), -128, 127)
    constants = ("w_shared_quantized", "w_shared_scale")
    return [
        AddInitializer(MAIN, make_tensor(constants[0], codes, TensorProto.INT8)),
        AddInitializer(MAIN, make_tensor(constants[1], np.full(4, 0.01), TensorProto.FLOAT)),
        AddNode(MAIN, "DequantizeLinear", constants, ("w_DQ",), "w", attributes={"axis": 0}),
        SetInput(THEN, ("then_conv",), 1, "w_DQ"),
        SetInput(ELSE, ("else_conv",), 1, "w_DQ"),
        RemoveInitializer(MAIN, "w_shared"),
    ]


def pairs_everywhere(model: onnx.ModelProto) -> list[Edit]:
    """On a graph input, on a captured tensor in a body, in a function, in a body of a function, on a shared weight."""
    return [
        *pair(MAIN, "x", "x_DQ", "x"),
        SetInput(MAIN, ("conv",), 0, "x_DQ"),
        *pair(ELSE, "relu", "else_relu_DQ", "else_relu"),
        SetInput(ELSE, ("else_conv",), 0, "else_relu_DQ"),
        *pair(BLOCK, "product", "product_DQ", "product"),
        SetInput(BLOCK, ("sum",), 0, "product_DQ"),
        *pair(CHOOSE_NEGATIVE, "data", "data_DQ", "data"),
        SetInput(CHOOSE_NEGATIVE, ("branch",), 0, "data_DQ"),
        *packed_weight(model),
    ]


def pairs_on_outputs() -> list[Edit]:
    """On the graph outputs, which keep their names; ``features`` is also read inside the graph."""
    return [
        RenameOutput(MAIN, ("features",), 0, "features_float"),
        *pair(MAIN, "features_float", "features", "features"),
        RenameOutput(MAIN, ("logits",), 0, "logits_float"),
        *pair(MAIN, "logits_float", "logits", "logits"),
    ]


@pytest.fixture(scope="module")
def before() -> onnx.ModelProto:
    return rich_model()


@pytest.fixture(scope="module")
def after(before: onnx.ModelProto) -> onnx.ModelProto:
    return apply_edits(Model(before), pairs_everywhere(before)).proto


class TestPairsInARichModel:
    def test_exactly_the_intended_places_change(self, before: onnx.ModelProto, after: onnx.ModelProto) -> None:
        block = f"functions[{DOMAIN}::Block:]"
        negative = f"functions[{DOMAIN}::Choose:].node[result].attribute[else_branch].g"
        then_body, else_body = (f"graph.node[features].attribute[{name}].g" for name in ("then_branch", "else_branch"))
        assert changed_fields(before, after) == sorted(
            [
                "graph.node[conv].input",
                *(f"+graph.node[{name}]" for name in ("x_codes", "x_DQ", "w_DQ")),
                *(f"+graph.initializer[{name}]" for name in ("x_scale", "x_zero_point")),
                *(f"+graph.initializer[w_shared_{name}]" for name in ("quantized", "scale")),
                "-graph.initializer[w_shared]",
                f"{then_body}.node[then_conv].input",
                f"{else_body}.node[else_conv].input",
                *(f"+{else_body}.node[else_relu_{name}]" for name in ("codes", "DQ")),
                *(f"+{else_body}.initializer[else_relu_{name}]" for name in ("scale", "zero_point")),
                f"{block}.node[sum].input",
                *(f"+{block}.node[product_{name}]" for name in ("scale", "zero_point", "codes", "DQ")),
                f"{negative}.node[branch].input",
                *(f"+{negative}.node[data_{name}]" for name in ("codes", "DQ")),
                *(f"+{negative}.initializer[data_{name}]" for name in ("scale", "zero_point")),
            ]
        )

    def test_an_independent_reader_sees_the_same(self, before: onnx.ModelProto, after: onnx.ModelProto) -> None:
        old, new = Counter(ir_facts(before)), Counter(ir_facts(after))
        went, came = [fact[3] for fact in old - new], [fact[3] for fact in new - old]
        touched = [("conv",), ("then_conv",), ("else_conv",), ("sum",), ("branch",)]
        assert sorted(went) == sorted(touched)
        added = ["x", "else_relu", "product", "data"]
        pairs = [(f"{name}_{what}",) for name in added for what in ("codes", "DQ")]
        constants = [("product_scale",), ("product_zero_point",)]
        assert sorted(came) == sorted([*touched, *pairs, *constants, ("w_DQ",)])

    def test_the_checker_accepts_it(self, after: onnx.ModelProto) -> None:
        onnx.checker.check_model(after)

    @pytest.mark.parametrize("flag", [True, False])
    def test_it_computes_what_offline_rounding_computes(self, before: onnx.ModelProto, flag: bool) -> None:
        weight_only = apply_edits(Model(before), packed_weight(before)).proto
        rounded = onnx.ModelProto()
        rounded.CopyFrom(before)
        for tensor in rounded.graph.initializer:
            if tensor.name == "w_shared":
                codes = np.clip(np.rint(numpy_helper.to_array(tensor) / np.float32(0.01)), -128, 127)
                tensor.CopyFrom(numpy_helper.from_array(codes.astype(np.float32) * np.float32(0.01), "w_shared"))
        expected = run(rounded, rich_feeds(flag=flag))
        assert all(map(np.array_equal, run(weight_only, rich_feeds(flag=flag)), expected))

    @pytest.mark.parametrize("flag", [True, False])
    def test_it_runs(self, before: onnx.ModelProto, after: onnx.ModelProto, flag: bool) -> None:
        feeds = rich_feeds(flag=flag)
        for found, float_output in zip(run(after, feeds), run(before, feeds), strict=True):
            assert found.shape == float_output.shape
            assert np.isfinite(found).all()
            assert not np.array_equal(found, float_output)

    def test_the_input_model_is_left_alone(self, before: onnx.ModelProto) -> None:
        snapshot = before.SerializeToString(deterministic=True)
        result = apply_edits(Model(before), [*pairs_everywhere(before), *pairs_on_outputs()])
        result.proto.graph.metadata_props[0].value = "changed"
        assert before.SerializeToString(deterministic=True) == snapshot

    def test_the_same_edits_give_the_same_bytes(self, before: onnx.ModelProto, after: onnx.ModelProto) -> None:
        again = apply_edits(Model(before), pairs_everywhere(before)).proto
        assert again.SerializeToString(deterministic=True) == after.SerializeToString(deterministic=True)

    def test_graph_outputs_keep_their_names(self, before: onnx.ModelProto) -> None:
        after = apply_edits(Model(before), pairs_on_outputs()).proto
        made = {node.output[0]: node for node in after.graph.node}
        assert made["features"].op_type == made["logits"].op_type == "DequantizeLinear"
        for original in before.graph.node:
            if original.output[0] in {"features", "logits"}:
                renamed = onnx.NodeProto()
                renamed.CopyFrom(original)
                renamed.output[0] += "_float"
                assert made[renamed.output[0]] == renamed
        assert outputs_in_order(Model(after)) == [
            *("conv", "relu", "features_float", "features_codes", "features", "pooled", "mixed", "loop_state", "state"),
            *("block", "scaled", "chosen", "logits_float", "logits_codes", "logits"),
        ]
        onnx.checker.check_model(after)
        assert len(run(after, rich_feeds())) == 3

    def test_sparse_initializers_stay(self) -> None:
        before = rich_model(sparse=True)
        after = apply_edits(Model(before), packed_weight(before)).proto
        assert after.graph.sparse_initializer == before.graph.sparse_initializer
        assert len(run(after, rich_feeds())) == 3


def ir_facts(proto: onnx.ModelProto) -> Iterator[tuple[object, ...]]:
    """What onnx-ir reads of each node: operator, name, inputs, outputs, attributes, metadata, documentation."""
    model = onnx_ir.serde.deserialize_model(proto)
    for container in (model.graph, *model.functions.values()):
        for node in onnx_ir.traversal.RecursiveGraphIterator(container):
            inputs = tuple(value.name if value is not None else "" for value in node.inputs)
            outputs = tuple(value.name for value in node.outputs)
            attributes = tuple(
                (item.name, item.type, "" if item.type == onnx_ir.AttributeType.GRAPH else str(item.value))
                for item in node.attributes.values()
            )
            metadata = tuple(sorted(node.metadata_props.items()))
            operator = (node.domain, node.op_type, node.overload)
            yield operator, node.name, inputs, outputs, attributes, metadata, node.doc_string


class TestCopiesEverywhere:
    """A copy of every tensor of every scope changes no output bit, and taking the copies out gives the file back.

    Activations are copied by an Identity, initializers by another initializer: ONNX Runtime multiplies by constant
    weights with another kernel than by computed ones, so inputs of functions, which may be weights, are left alone.
    """

    def edits(self, model: Model) -> tuple[list[Edit], list[Edit]]:
        view = GraphView(model)
        namer = Namer(view)
        there: list[Edit] = []
        back: list[Edit] = []
        for value in view.values():
            in_function = value.is_input and value.scope.is_function
            stored = value.producer is not None and value.producer.is_op("Constant")
            if value.uses and not in_function and not stored:
                self.insert(value, namer, there, back)
        return there, back

    def insert(self, value: Value, namer: Namer, there: list[Edit], back: list[Edit]) -> None:
        path, copy = value.scope.path, namer.tensor(f"{value.name}_copy")
        if value.initializer is not None:
            tensor = TensorProto()
            tensor.CopyFrom(value.initializer)
            tensor.name = copy
            there.append(AddInitializer(path, tensor))
            back.append(RemoveInitializer(path, copy))
        else:
            there.append(AddNode(path, "Identity", (value.name,), (copy,), namer.node(f"{value.name}_Identity")))
            back.append(RemoveNode(path, (copy,)))
        for use in value.uses:
            there.append(SetInput(use.node.scope.path, use.node.key, use.index, copy))
            back.append(SetInput(use.node.scope.path, use.node.key, use.index, value.name))

    @pytest.mark.parametrize("flag", [True, False])
    def test_in_a_rich_model(self, flag: bool) -> None:
        model = Model(rich_model())
        there, back = self.edits(model)
        changed = apply_edits(model, there)
        onnx.checker.check_model(changed.proto)
        feeds = rich_feeds(flag=flag)
        assert all(map(np.array_equal, run(changed.proto, feeds), run(model.proto, feeds)))
        assert changed_fields(model.proto, apply_edits(changed, back).proto) == []

    @pytest.mark.real
    def test_in_real_models(self, real_model: Path) -> None:
        model = load_model(real_model)
        there, back = self.edits(model)
        changed = apply_edits(model, there)
        onnx.checker.check_model(changed.proto)
        assert changed_fields(model.proto, apply_edits(changed, back).proto) == []
        feeds = real_feeds(model.proto)
        assert all(map(np.array_equal, run(changed.proto, feeds), run(model.proto, feeds)))


class TestSingleEdits:
    def test_packed_tensors_travel_in_attributes(self) -> None:
        tensor = make_tensor("t", np.array([1, -2, 7]), TensorProto.INT4)
        edits = [AddNode(MAIN, "Constant", (), ("c",), "c", attributes={"value": tensor})]
        changed = apply_edits(text_model(CHAIN), edits)
        assert changed.proto.graph.node[-1].attribute[0].t == tensor

    def test_names_domains_and_operators(self) -> None:
        model = text_model(CHAIN)
        edits = [
            SetNodeName(MAIN, ("a",), "first"),
            SetDomain(MAIN, ("b",), "com.microsoft"),
            SetOperator(MAIN, ("y",), "Sub"),
        ]
        changed = apply_edits(model, edits).proto
        assert changed_fields(model.proto, changed) == [
            "+graph.node[a].name",
            "+opset_import[com.microsoft]",
            "graph.node[b].domain",
            "graph.node[y].op_type",
        ]
        assert changed.opset_import[1].version == 1

    def test_a_function_imports_the_domains_of_its_new_nodes_itself(self) -> None:
        model = Model(rich_model())
        edits = [AddNode(BLOCK, "Gelu", ("sum",), ("gelu",), "gelu", domain="com.microsoft")]
        found = changed_fields(model.proto, apply_edits(model, edits).proto)
        assert f"+functions[{DOMAIN}::Block:].opset_import[com.microsoft]" in found
        assert len(found) == 2

    @pytest.mark.parametrize(("before", "after"), [(3, 4), (4, 4), (9, 9)])
    def test_a_new_initializer_raises_the_ir_version_to_4(self, before: int, after: int) -> None:
        model = text_model(CHAIN)
        model.proto.ir_version = before
        edits = [AddInitializer(MAIN, make_tensor("new", np.zeros(4), TensorProto.FLOAT))]
        assert apply_edits(model, edits).proto.ir_version == after

    def test_pending_tensors_and_their_payloads_pass_through(self) -> None:
        model = text_model(CHAIN)
        first = pending_tensor(model, "first", (2,), TensorProto.INT8, Payload(2, lambda: b"ab"))
        once = apply_edits(model, [AddInitializer(MAIN, first)])
        second = pending_tensor(once, "second", (2,), TensorProto.INT8, Payload(2, lambda: b"cd"))
        twice = apply_edits(once, [AddInitializer(MAIN, second)])
        assert list(twice.proto.graph.initializer)[1:] == [first, second]
        assert {key: payload.make() for key, payload in twice.payloads.items()} == {"first": b"ab", "second": b"cd"}
        assert twice.path == model.path

    def test_external_data_is_not_read(self) -> None:
        model = text_model(CHAIN)
        tensor = model.proto.graph.initializer[0]
        tensor.ClearField("float_data")
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value="no such file")
        edits = [AddNode(MAIN, "Identity", ("w",), ("c",), "c"), SetInput(MAIN, ("b",), 1, "c")]
        assert apply_edits(model, edits).proto.graph.initializer[0] == tensor

    def test_what_this_onnx_does_not_know_stays(self) -> None:
        model = text_model(CHAIN)
        model.proto.graph.MergeFromString(b"\xfa\x3f\x03new")  # field 1023, length 3
        before = model.proto.SerializeToString(deterministic=True)
        edits = [RemoveInitializer(MAIN, "w"), SetInput(MAIN, ("b",), 1, "a")]
        after = apply_edits(model, edits).proto.SerializeToString(deterministic=True)
        assert b"\xfa\x3f\x03new" in before
        assert b"\xfa\x3f\x03new" in after

    def test_no_edits_give_an_independent_copy(self) -> None:
        model = text_model(CHAIN)
        copied = apply_edits(model, [])
        assert copied.proto == model.proto
        copied.proto.ir_version = 10
        assert model.proto.ir_version == 8


def test_a_body_goes_with_its_owner() -> None:
    edits = [
        RemoveNode(MAIN, ("y",)),
        RemoveNode(MAIN, ("a",)),
        RemoveInitializer(MAIN, "w"),
        AddNode(MAIN, "Abs", ("x",), ("y",), "only"),
    ]
    changed = apply_edits(text_model(BODIES), edits).proto
    assert [node.op_type for node in changed.graph.node] == ["Abs"]
    assert not changed.graph.initializer


def test_nodes_that_make_the_same_tensor_cannot_be_edited() -> None:
    model = text_model(CHAIN)
    model.proto.graph.node.add(op_type="Neg", input=["x"], output=["a"])
    with pytest.raises(ModelError, match="the main graph defines tensor 'a' twice"):
        apply_edits(model, [SetNodeName(MAIN, ("y",), "last")])


ZEROS = np.zeros(4, np.float32)
ELSE_BODY = ("y.else_branch",)


def check(edits: list[Edit], text: str = BODIES) -> None:
    view = GraphView(text_model(text))
    check_batches(view, sort_edits(view, edits))


REFUSED: dict[str, tuple[list[Edit], str]] = {
    "tensor that exists": (
        [AddNode(MAIN, "Relu", ("x",), ("a",), "n")],
        "'a' would be defined twice in the main graph",
    ),
    "initializer that exists": (
        [AddInitializer(MAIN, numpy_helper.from_array(ZEROS, "x"))],
        "'x' would be defined twice",
    ),
    "new name twice": ([AddNode(MAIN, "Relu", ("x",), ("n", "n"), "n")], "'n' would be defined twice"),
    "outer name in a body": ([AddNode(THEN_BODY, "Relu", ("x",), ("a",), "n")], "would hide the tensor of the main"),
    "body's name outside": ([AddNode(MAIN, "Relu", ("x",), ("inner",), "n")], "would hide the tensor of the main"),
    "removed but read": ([RemoveNode(MAIN, ("a",))], "'a' of the main graph would vanish, but input 0 of node 'Add"),
    "removed constant but read": ([RemoveInitializer(MAIN, "w")], "'w' of the main graph would vanish, but input 1"),
    "removed graph output": ([RemoveNode(MAIN, ("y",))], "'y' would vanish, but it is an output of the main graph"),
    "removed body output": ([RemoveNode(THEN_BODY, ("p",))], "output of scope 'y.then_branch'"),
    "renamed but read": ([RenameOutput(MAIN, ("a",), 0, "z")], "'a' of the main graph would vanish"),
    "another input of the reader is moved": (
        [RemoveInitializer(MAIN, "w"), SetInput(THEN_BODY, ("inner",), 0, "x")],
        "'w' of the main graph would vanish, but input 1",
    ),
    "reads nothing": ([SetInput(MAIN, ("a",), 0, "nothing")], "reads tensor 'nothing', which is defined nowhere"),
    "reads a body's tensor": ([SetInput(MAIN, ("a",), 0, "inner")], "reads tensor 'inner'"),
    "reads the other body's tensor": (
        [SetInput(ELSE_BODY, ("q",), 0, "inner")],
        "an edit in scope 'y.else_branch' reads",
    ),
    "new node reads nothing": ([AddNode(MAIN, "Relu", ("", "gone"), ("n",), "n")], "reads tensor 'gone'"),
    "reads what vanishes": (
        [RemoveNode(THEN_BODY, ("inner",)), SetInput(THEN_BODY, ("p",), 0, "inner")],
        "reads tensor 'inner', which is defined nowhere",
    ),
}


@pytest.mark.parametrize(("edits", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_names_without_a_definition_or_with_two_are_refused(edits: list[Edit], message: str) -> None:
    with pytest.raises(EditError, match=message):
        check(edits)


ALLOWED: dict[str, list[Edit]] = {
    "freed name taken": [RenameOutput(MAIN, ("y",), 0, "z"), AddNode(MAIN, "Relu", ("z",), ("y",), "n")],
    "initializer replaced": [RemoveInitializer(MAIN, "w"), AddInitializer(MAIN, numpy_helper.from_array(ZEROS, "w"))],
    "reader moved": [RemoveInitializer(MAIN, "w"), SetInput(THEN_BODY, ("inner",), 1, "x")],
    "reader removed": [
        RemoveNode(THEN_BODY, ("inner",)),
        SetInput(THEN_BODY, ("p",), 0, "a"),
        RemoveInitializer(MAIN, "w"),
    ],
    "owner removed": [
        RemoveNode(MAIN, ("y",)),
        RemoveNode(MAIN, ("a",)),
        RemoveInitializer(MAIN, "w"),
        AddNode(MAIN, "Abs", ("x",), ("y",), "n"),
    ],
    "the same name in both bodies": [
        AddNode(THEN_BODY, "Relu", ("x",), ("both",), "n"),
        AddNode(ELSE_BODY, "Relu", ("x",), ("both",), "m"),
    ],
    "name of a vanished tensor of a body": [
        RemoveNode(THEN_BODY, ("inner",)),
        SetInput(THEN_BODY, ("p",), 0, "a"),
        AddNode(MAIN, "Relu", ("x",), ("inner",), "n"),
    ],
    "absent inputs": [SetInput(THEN_BODY, ("p",), 0, ""), AddNode(MAIN, "Clip", ("x", "", "a"), ("n",), "n")],
    "nothing named anew": [SetNodeName(MAIN, ("a",), "a")],
}


@pytest.mark.parametrize("edits", ALLOWED.values(), ids=ALLOWED.keys())
def test_names_that_are_free_after_the_edits_may_be_used(edits: list[Edit]) -> None:
    check(edits)


def test_a_reader_in_a_chain_is_named_with_the_input_that_reads():
    message = "'a' of the main graph would vanish, but input 0 of node 'Mul -> b' reads it"
    with pytest.raises(EditError, match=message):
        check([RemoveNode(MAIN, ("a",)), SetInput(MAIN, ("y",), 0, "x")], CHAIN)


def test_a_name_that_its_scope_defines_is_not_looked_for_further_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bodies may lie 30 deep, and each edit in the innermost would look through all of them."""
    view = GraphView(text_model(BODIES))
    inner = view.scope(THEN_BODY)
    name = next(iter(node.key[0] for node in inner.nodes))
    edits = [AddNode(THEN_BODY, "Relu", (name,), ("new",), "n")]
    looked: list[ScopePath] = []
    outwards = Scope.outwards

    def noted(scope: Scope) -> Iterator[Scope]:
        for each in outwards(scope):
            looked.append(each.path)
            yield each

    monkeypatch.setattr(Scope, "outwards", noted)
    batches = sort_edits(view, edits)
    surgeon._Checker(batches).check_reads(batches[THEN_BODY])
    assert looked == [THEN_BODY]
