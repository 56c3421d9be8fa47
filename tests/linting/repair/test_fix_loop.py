"""Fixes on models of their own: what they change, what they keep, and what they refuse."""

from collections.abc import Iterator
from functools import partial

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import TensorProto, helper, numpy_helper
from support.rawdiff import changed_fields
from support.rich_model import rich_feeds, rich_model
from support.small import run

from qdqtool.jobs.fix import FixRequest, fix_model
from qdqtool.linting.policy import Linter, Policy
from qdqtool.linting.repair.fix_loop import NEEDS_UNSAFE, Permission, Proposal, Repair, Source
from qdqtool.linting.repair.proof import NOTHING_VARIES, Prover
from qdqtool.linting.repair.report import Repaired
from qdqtool.linting.rules import Draft, Fix, Offer, RuleContext, UnfitError
from qdqtool.models.graph.edits.edit import AddInitializer, AddNode, Edit, SetInput
from qdqtool.models.graph.edits.surgeon import apply_edits
from qdqtool.models.graph.index.view import Value
from qdqtool.models.graph.io.save import save_model
from qdqtool.models.graph.io.tensors import make_tensor
from qdqtool.models.graph.model import Model
from qdqtool.samples.request import DataRequest

POLICY = Policy(targets=("tensorrt",))


def parsed(text: str, opset: int = 21) -> Model:
    return Model(onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": {opset}]> {text}'))


def safe(model: Model) -> tuple[Model, Repaired]:
    fixed = fix_model(model, FixRequest(policy=POLICY))
    return fixed.model, fixed.report


def unsafe(model: Model) -> tuple[Model, Repaired]:
    fixed = fix_model(model, FixRequest(policy=POLICY, unsafe=True))
    return fixed.model, fixed.report


def stored(model: Model, tmp_path) -> onnx.ModelProto:
    save_model(model, tmp_path / "stored.onnx")
    return onnx.load(tmp_path / "stored.onnx")


def operators(model: Model) -> list[str]:
    return [node.op_type for node in model.proto.graph.node]


def left(model: Model) -> list[str]:
    return [finding.code for target in Linter(POLICY).model(model).targets for finding in target.findings]


class TestSymmetricCodes:
    def test_codes_that_are_moved_and_joined_change_together(self, tmp_path):
        model = parsed(
            "g (float[1,4] a, float[1,4] b) => (float[4,2] y) <float s = {0.1}, float t = {0.2}, uint8 z = {128}> {"
            " q = QuantizeLinear(a, s, z) r = QuantizeLinear(b, s, z) m = Concat <axis = 0> (q, r)"
            " n = Transpose(m) y = DequantizeLinear(n, s, z) }"
        )
        model.proto.graph.value_info.append(helper.make_tensor_value_info("n", TensorProto.UINT8, (4, 2)))

        fixed, done = safe(model)

        assert {change.label for change in done.changes} == {"safe"}
        assert done.outputs[0].exact
        assert fixed.proto.graph.value_info[0].type.tensor_type.elem_type == TensorProto.INT8
        onnx.checker.check_model(fixed.proto, full_check=True)
        assert not left(fixed)

    def test_weights_whose_codes_fit_are_exact_with_any_zero_point(self, tmp_path):
        model = parsed(
            "g (float[1,2] x) => (float[1,2] y) <uint8[2,2] w = {3, 100, 9, 12}, float s = {0.1}, uint8 z = {7}> {"
            " d = DequantizeLinear(w, s, z) y = MatMul(x, d) }"
        )

        fixed, done = safe(model)

        weights = next(t for t in stored(fixed, tmp_path).graph.initializer if t.dims == [2, 2])
        assert numpy_helper.to_array(weights).tolist() == [[-4, 93], [2, 5]]
        assert done.outputs[0].exact

    def test_weights_whose_codes_do_not_fit_are_quantized_again(self):
        model = parsed(
            "g (float[1,2] x) => (float[1,2] y) <uint8[2,2] w = {3, 255, 9, 12}, float s = {0.1}, uint8 z = {7}> {"
            " d = DequantizeLinear(w, s, z) y = MatMul(x, d) }"
        )

        _, kept = safe(model)
        fixed, done = unsafe(model)

        assert not kept.changes
        assert [change.label for change in done.changes] == ["unsafe"]
        assert not left(fixed)

    def test_a_relu_that_the_q_absorbed_comes_back(self):
        model = parsed(
            "g (float[1,64] x) => (float[1,64] y) <float s = {0.02}, int8 z = {-128}> {"
            " n = Neg(x) q = QuantizeLinear(n, s, z) y = DequantizeLinear(q, s, z) }"
        )

        fixed, done = unsafe(model)

        assert operators(fixed) == ["Neg", "Relu", "QuantizeLinear", "DequantizeLinear"]
        scale = numpy_helper.to_array(fixed.proto.graph.initializer[0])
        assert scale == np.float32(np.float64(np.float32(0.02)) * 255 / 127)
        assert done.outputs[0].max_steps <= 0.5 + 0.5 * 255 / 127 + 1e-3  # half a step of either
        assert done.outputs[0].before_db > 40

    def test_a_table_that_is_looked_up_in_codes_is_quantized_again(self, tmp_path):
        model = parsed(
            "g (int64[3] i) => (float[3,2] y) <uint8[4,2] w = {0, 255, 9, 135, 1, 2, 3, 4}, float s = {0.1},"
            " uint8 z = {135}> { r = Gather(w, i) y = DequantizeLinear(r, s, z) }"
        )

        fixed, done = unsafe(model)

        table = next(t for t in stored(fixed, tmp_path).graph.initializer if t.dims == [4, 2])
        codes = np.array([[0, 255], [9, 135], [1, 2], [3, 4]], np.float64) - 135
        np.testing.assert_array_equal(numpy_helper.to_array(table), np.rint(codes * 127 / 135).astype(np.int8))
        assert done.outputs[0].max_abs <= 0.1 * 135 / 127 / 2 + 1e-5
        # The codes are symmetric now. TensorRT still takes no Gather of stored codes.
        assert left(fixed) == ["QL312"]

    def test_no_relu_where_nothing_is_negative(self):
        model = parsed(
            "g (float[1,1,4,4] x) => (float[1,1,2,2] y) <float s = {0.02}, uint8 z = {0}> {"
            " r = Relu(x) p = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (r)"
            " q = QuantizeLinear(p, s, z) y = DequantizeLinear(q, s, z) }"
        )

        fixed, _ = unsafe(model)

        assert operators(fixed) == operators(model)

    def test_codes_that_are_an_output_stay(self):
        model = parsed(
            "g (float[1,4] x) => (int8[1,4] q) <float s = {0.1}, int8 z = {3}> { q = QuantizeLinear(x, s, z) }"
        )

        fixed, done = unsafe(model)

        assert fixed.proto == model.proto
        assert "the codes 'q' are an input or output of the graph; a fix must not change their meaning" in {
            refusal.reason for refusal in done.refused
        }


def test_blocks_are_split_exactly_where_they_can_be():
    codes = ",".join(str(value) for value in range(-10, 10))
    model = parsed(
        f"g (float[1,10] x) => (float[1,2] y) <int8[10,2] w = {{{codes}}}, float[3,2] s = {{0.1,0.2,0.3,0.4,0.5,0.6}}>"
        " { d = DequantizeLinear <axis = 0, block_size = 4> (w, s) y = MatMul(x, d) }"
    )

    fixed, done = safe(model)

    assert [change.label for change in done.changes] == ["safe"]
    node = fixed.proto.graph.node[0]
    assert {attribute.name: attribute.i for attribute in node.attribute} == {"axis": 0, "block_size": 2}
    assert [list(t.dims) for t in fixed.proto.graph.initializer if t.name == node.input[1]] == [[5, 2]]


def test_an_int32_bias_becomes_the_float_that_the_dq_makes(tmp_path):
    model = parsed(
        "g (float[1,1,2,2] x) => (float[1,2,2,2] y) <float[2,1,1,1] w = {1, 2}, int32[2] b = {7, -900000001},"
        " float[2] s = {0.1, 0.003}> { d = DequantizeLinear <axis = 0> (b, s) y = Conv(x, w, d) }"
    )

    fixed, done = safe(model)

    bias = next(t for t in stored(fixed, tmp_path).graph.initializer if t.name == fixed.proto.graph.node[0].input[2])
    expected = np.array([7, -900000001], np.int32).astype(np.float32) * np.array([0.1, 0.003], np.float32)
    assert numpy_helper.to_array(bias).tobytes() == expected.tobytes()
    assert [change.label for change in done.changes] == ["safe"]


def test_a_suppressed_finding_is_not_fixed():
    model = parsed(
        "g (float[1,4] x) => (float[1,4] y) <float s = {0.1}> { q = QuantizeLinear(x, s) y = DequantizeLinear(q, s) }"
    )
    model.proto.graph.node[0].metadata_props.add(key="qdqtool.ignore", value="QS001: on purpose")

    fixed, _ = safe(model)

    assert fixed.proto.graph.node[0] == model.proto.graph.node[0]


def test_what_is_written_about_a_constant_goes_to_the_one_that_replaces_it():
    model = parsed(
        "g (float[1,2] x) => (float[1,2] y) <uint8[2,2] w = {3, 100, 9, 12}, float s = {0.1}, uint8 z = {128}> {"
        " d = DequantizeLinear(w, s, z) y = MatMul(x, d) }"
    )
    for tensor in model.proto.graph.initializer:
        tensor.doc_string = f"about {tensor.name}"
        tensor.metadata_props.add(key="from", value=tensor.name)

    fixed, done = safe(model)

    assert done.changes
    described = {tensor.doc_string: tensor.metadata_props[0].value for tensor in fixed.proto.graph.initializer}
    assert described == {"about w": "w", "about s": "s", "about z": "z"}


def test_unsigned_4_bit_codes_around_any_zero_point_are_exact_in_int8(tmp_path):
    model = parsed(
        "g (float[1,2] x) => (float[1,2] y) <uint4[2,2] w = {48, 159}, float s = {0.1}, uint4 z = {3}> {"
        " d = DequantizeLinear(w, s, z) y = MatMul(x, d) }"
    )

    fixed, done = safe(model)

    codes = next(t for t in stored(fixed, tmp_path).graph.initializer if t.dims == [2, 2])
    assert numpy_helper.to_array(codes).tolist() == [[-3, 0], [12, 6]]  # the nibbles 0, 3, 15, 9, less 3
    assert {change.label for change in done.changes} == {"safe"}
    assert done.outputs[0].exact


def test_one_block_of_a_matrix_is_a_scale_for_each_column(tmp_path):
    """ONNX Runtime's quantizer writes block_size 128 for 4 rows."""
    model = parsed(
        "g (float[1,4] x) => (float[1,2] y) <int8[4,2] w = {1, 2, 3, 4, 5, 6, 7, 8}, float[1,2] s = {0.1, 0.2}> {"
        " d = DequantizeLinear <axis = 0, block_size = 128> (w, s) y = MatMul(x, d) }"
    )

    fixed, done = safe(model)

    node = fixed.proto.graph.node[0]
    assert {attribute.name: attribute.i for attribute in node.attribute} == {"axis": 1}
    assert done.outputs[0].exact
    (y,) = run(stored(fixed, tmp_path), {"x": np.float32([[1, 1, 1, 1]])})
    np.testing.assert_allclose(y, [[1.6, 4.0]], rtol=1e-6)
    assert not left(fixed)


def test_negative_scales_of_int4_weights_load_everywhere_and_are_a_warning():
    """As ONNX Runtime's quantizer writes symmetric int4 weights."""
    model = parsed(
        "g (float[1,2] x) => (float[1,2] y) <int4[2,2] w = {33, 67}, float s = {-0.1}> {"
        " d = DequantizeLinear(w, s) y = MatMul(x, d) }"
    )
    report = Linter(Policy(targets=("onnx", "ort-cpu", "tensorrt-rtx"), select=("QP101",))).model(model)

    assert [(each.severity, each.effect) for target in report.targets for each in target.findings] == [
        ("warning", "advice")
    ] * 3


def test_a_large_float_weight_is_stored_as_its_codes(tmp_path):
    model = parsed(
        "g (float[1,512] x) => (float[1,512] y) <float s = {0.01}, int8 z = {0}> {"
        " q = QuantizeLinear(w, s, z) d = DequantizeLinear(q, s, z) y = MatMul(x, d) }"
    )
    weight = np.random.default_rng(0).normal(0, 0.3, (512, 1024)).astype(np.float32)
    model.proto.graph.initializer.append(numpy_helper.from_array(weight, "w"))

    fixed, done = safe(model)

    codes = next(t for t in stored(fixed, tmp_path).graph.initializer if t.dims == [512, 1024])
    expected = np.clip(np.rint(weight / np.float32(0.01)), -128, 127).astype(np.int8)
    np.testing.assert_array_equal(numpy_helper.to_array(codes), expected)
    assert operators(fixed) == ["DequantizeLinear", "MatMul"]
    assert [change.code for change in done.changes] == ["QM603"]


def test_dead_channels_of_a_weight_get_scale_1(tmp_path):
    model = parsed(
        "g (float[1,2] x) => (float[1,3] y) <int8[2,3] w = {1, -7, 3, 4, 9, -6}, float[3] s = {0.1, 0, 0.2}> {"
        " d = DequantizeLinear <axis = 1> (w, s) y = MatMul(x, d) }"
    )

    fixed, done = safe(model)

    tensors = [numpy_helper.to_array(tensor) for tensor in stored(fixed, tmp_path).graph.initializer]
    assert [t.tolist() for t in tensors if t.shape == (2, 3)] == [[[1, 0, 3], [4, 0, -6]]]
    assert [t.tolist() for t in tensors if t.shape == (3,)] == [np.float32([0.1, 1, 0.2]).tolist()]
    assert [change.label for change in done.changes] == ["safe"]
    assert not left(fixed)


def test_negative_scales_are_left_to_people():
    model = parsed(
        "g (float[1,2] x) => (float[1,2] y) <int8[2,2] w = {1, -7, 3, 4}, float[2] s = {-0.1, 0}> {"
        " d = DequantizeLinear <axis = 1> (w, s) y = MatMul(x, d) }"
    )

    fixed, _ = unsafe(model)

    assert fixed.proto == model.proto


def test_the_opset_is_raised_once_and_everything_after_it_is_proven():
    """Per-axis scales came with opset 13; ONNX Runtime's quantizer writes them into older models all the same."""
    model = parsed(
        "g (float[1,2] x) => (float[1,2] y) <float s = {0.1}, uint8 z = {128}, int8[2,2] w = {1, -7, 3, 4},"
        " float[2] ws = {0.1, 0.2}> { q = QuantizeLinear(x, s, z) xd = DequantizeLinear(q, s, z)"
        " d = DequantizeLinear <axis = 1> (w, ws) y = MatMul(xd, d) }",
        opset=11,
    )

    _, kept = safe(model)
    fixed, done = unsafe(model)

    assert not kept.changes
    assert fixed.default_opset() == 13
    assert [change.code for change in done.changes if change.label == "unsafe"] == ["QS004"]
    assert {change.label for change in done.changes if change.code != "QS004"} == {"safe"}
    assert not left(fixed)


def test_nodes_that_a_body_reads_too_early_are_put_in_order():
    model = parsed(
        "g (bool c, float[1,4] x) => (float[1,4] y) <float s = {0.1}, int8 z = {0}> {"
        " y = If (c) <then_branch = t () => (float[1,4] a) { a = DequantizeLinear (q, s, z) },"
        " else_branch = e () => (float[1,4] b) { b = Neg (x) }> p = Abs(x) q = QuantizeLinear (p, s, z) }"
    )

    found = fix_model(model, FixRequest(policy=Policy(targets=("onnx",))))
    fixed, done = found.model, found.report

    assert operators(fixed) == ["Abs", "QuantizeLinear", "If"]
    assert [change.code for change in done.changes] == ["QM617"]
    onnx.checker.check_model(fixed.proto, full_check=True)


class TestEngine:
    """The engine with fixes that lie about themselves."""

    @staticmethod
    def proposals(context: RuleContext) -> Iterator[Proposal]:
        """For every initializer ``k*``: give its readers the double, which claims to be safe."""
        for value in context.view.main.values.values():
            if value.initializer is not None and value.name.startswith("k"):
                factor = 2 if value.name == "k3" else 1

                def write(draft: Draft, value=value, factor=factor) -> None:
                    array = numpy_helper.to_array(value.initializer) * np.float32(factor)
                    draft.replace(value, draft.constant(value.scope, f"fixed_{value.name}", array, TensorProto.FLOAT))

                fix = Fix(Offer("safe", "claims to change nothing"), f"copies {value.name}", write)
                yield Proposal(code="T1", node=value.uses[0].node, fixes=(fix,))

    def test_a_fix_that_changes_bits_is_refused_alone(self):
        constants = ", ".join(f"float k{index} = {{{index + 1}}}" for index in range(6))
        nodes = " ".join(f"t{index + 1} = Mul(t{index}, k{index})" for index in range(6))
        model = parsed(f"g (float[4] t0) => (float[4] t6) <{constants}> {{ {nodes} }}")

        repair = Repair(model, self.proposals, Prover(model, DataRequest()), Permission.SAFE)
        done = repair.run()

        assert sorted(change.description for change in done.changes) == [f"copies k{n}" for n in (0, 1, 2, 4, 5)]
        (refused,) = done.refused
        assert refused.description == "copies k3"
        assert "output 't6' differs on sample 0" in refused.reason
        assert sorted(done.removed) == ["k0", "k1", "k2", "k4", "k5"]


@pytest.fixture(scope="module")
def faulty() -> Model:
    model = Model(rich_model())
    edits: list[Edit] = []

    places = [
        ((), ("relu",), 0, "conv"),
        (("features.else_branch",), ("else_out",), 0, "else_conv"),
        (("loop_state.body",), ("loop_gemm",), 0, "loop_product"),
        (("com.example.blocks::Block",), ("sum",), 0, "product"),
    ]
    for number, (scope, node, index, source) in enumerate(places):
        mark = f"fault{number}"
        edits += [
            AddInitializer(scope, make_tensor(f"{mark}_s", np.float32(0.05), TensorProto.FLOAT)),
            AddInitializer(scope, make_tensor(f"{mark}_z", np.uint8(128), TensorProto.UINT8)),
            AddNode(scope, "QuantizeLinear", (source, f"{mark}_s", f"{mark}_z"), (f"{mark}_q",), f"{mark}_Q"),
            AddNode(scope, "DequantizeLinear", (f"{mark}_q", f"{mark}_s", f"{mark}_z"), (f"{mark}_d",), f"{mark}_DQ"),
            SetInput(scope, node, index, f"{mark}_d"),
        ]
    return apply_edits(model, edits)


class TestRichModel:
    """Q/DQ with faults in the main graph, a branch, a loop body and a function of a model that has everything."""

    def test_every_scope_is_fixed_and_nothing_else_changes(self, faulty: Model):
        found = fix_model(faulty, FixRequest(policy=Policy(targets=("tensorrt",), select=("QP",))))
        fixed, done = found.model, found.report

        paths = changed_fields(faulty.proto, fixed.proto)
        assert len([change for change in done.changes if change.code in {"QP102", "QP103"}]) == 4
        assert {change.label for change in done.changes} == {"safe"}
        assert all("fault" in path or "initializer" in path for path in paths), paths
        assert not [code for code in left(fixed) if code in {"QP102", "QP103"}]

    @pytest.mark.parametrize("flag", [True, False])
    def test_it_computes_the_same(self, faulty: Model, flag: bool):
        fixed, _ = safe(faulty)

        feeds = rich_feeds(flag=flag)
        for before, after in zip(run(faulty.proto, feeds), run(fixed.proto, feeds), strict=True):
            assert before.tobytes() == after.tobytes()


KINDS = dict[str, list[tuple[str, float | str]]]


class TestAlternatives:
    """Fixes that multiply a constant: by 1, which changes nothing, by 2, which does, or not at all."""

    @staticmethod
    def model(*names: str) -> Model:
        """Multiply ``x`` by each constant."""
        constants = ", ".join(f"float {name} = {{{index + 3}}}" for index, name in enumerate(names))
        nodes = " ".join(f"[n{i}] t{i + 1} = Mul(t{i}, {name})" for i, name in enumerate(names))
        return parsed(f"g (float[4] t0) => (float[4] t{len(names)}) <{constants}> {{ {nodes} }}")

    @staticmethod
    def source(kinds: KINDS):
        def proposals(context: RuleContext) -> Iterator[Proposal]:
            for name, fixes in kinds.items():
                value = context.view.main.values.get(name)
                if value is not None and value.uses:
                    made = tuple(
                        Fix(
                            Offer(label, "multiplies"),
                            f"{name} {label} {what}",
                            partial(TestAlternatives.write, value, what),
                        )
                        for label, what in fixes
                    )
                    yield Proposal(code="T1", node=value.uses[0].node, fixes=made)

        return proposals

    @staticmethod
    def write(value, what: float | str, draft: Draft) -> None:
        if what == "unfit":
            raise UnfitError(f"{value.name} is unfit")
        if what == "edit":
            draft.edits.append(SetInput((), ("nowhere",), 0, "x"))
            return
        if what in {"opset", "opset 23"}:
            draft.opset = 23 if what == "opset 23" else 22
        array = numpy_helper.to_array(value.initializer) * np.float32(what if isinstance(what, int) else 1)
        if what == "shape":
            array = np.ones((2, 3), np.float32)
        draft.replace(value, draft.constant(value.scope, "fixed", array, TensorProto.FLOAT))

    def repaired(self, kinds: KINDS, permission: Permission, model: Model | None = None) -> Repaired:
        model = model or self.model(*kinds)
        return Repair(model, self.source(kinds), Prover(model, DataRequest(samples=3)), permission).run()

    @pytest.mark.parametrize(
        ("fixes", "permission", "changed", "refused"),
        [
            ([("safe", 1)], "SAFE", ("safe", "safe 1"), []),
            ([("safe", 1)], "UNSAFE", ("safe", "safe 1"), []),
            ([("safe", 1)], "REWRITE", ("safe", "safe 1"), []),
            ([("safe", 2)], "SAFE", None, ["safe 2: output 't1' differs on sample 0"]),
            ([("safe", 2)], "UNSAFE", None, ["safe 2: output 't1' differs on sample 0"]),
            ([("safe", 2)], "REWRITE", ("unsafe", "safe 2"), []),
            ([("unsafe", 2)], "SAFE", None, [f"unsafe 2: {NEEDS_UNSAFE}"]),
            ([("unsafe", 2)], "UNSAFE", ("unsafe", "unsafe 2"), []),
            ([("unsafe", 2)], "REWRITE", ("unsafe", "unsafe 2"), []),
            ([("unsafe", 1)], "UNSAFE", ("unsafe", "unsafe 1"), []),
            ([("safe", "unfit")], "SAFE", None, ["safe unfit: k is unfit"]),
            ([("safe", "unfit"), ("safe", 1)], "SAFE", ("safe", "safe 1"), []),
            ([("safe", 2), ("safe", 1)], "SAFE", ("safe", "safe 1"), ["safe 2: output 't1' differs on sample 0"]),
            ([("unsafe", 2), ("safe", 1)], "SAFE", None, [f"unsafe 2: {NEEDS_UNSAFE}"]),
            (
                [("safe", 2), ("unsafe", 2)],
                "UNSAFE",
                ("unsafe", "unsafe 2"),
                ["safe 2: output 't1' differs on sample 0"],
            ),
            ([("safe", "unfit"), ("unsafe", 2)], "SAFE", None, [f"unsafe 2: {NEEDS_UNSAFE}"]),
            ([("unsafe", "unfit"), ("safe", 1)], "SAFE", None, [f"unsafe unfit: {NEEDS_UNSAFE}"]),
            ([("safe", "unfit"), ("unsafe", 2)], "UNSAFE", ("unsafe", "unsafe 2"), []),
            ([("unsafe", "unfit")], "UNSAFE", None, ["unsafe unfit: k is unfit"]),
        ],
    )
    def test_one_place(self, fixes: list, permission: str, changed: tuple[str, str] | None, refused: list[str]):
        done = self.repaired({"k": fixes}, Permission[permission])

        assert [(each.label, each.description) for each in done.changes] == (
            [(changed[0], f"k {changed[1]}")] if changed else []
        )
        assert [f"{each.description}: {each.reason}" for each in done.refused] == [f"k {text}" for text in refused]
        for each in (*done.changes, *done.refused):
            assert (each.code, each.node, each.graph) == ("T1", "n0", "")
        assert done.removed == (("k",) if changed else ())
        assert done.feeds == "3 samples (random inputs, seed 0)"
        assert done.unproven is None
        assert bool(done.outputs) == bool(changed)
        equal = "outputs and 1 tensor next to the change are bit-equal on 3 samples (random inputs, seed 0)"
        change = "outputs change on 3 samples (random inputs, seed 0)"
        assert [each.proof for each in done.changes] == (
            [change if changed[1].endswith("2") else equal] if changed else []
        )

    def test_edits_that_cannot_be_carried_out_are_refused(self):
        done = self.repaired({"k": [("safe", "edit"), ("safe", 1)]}, Permission.SAFE)

        assert [each.description for each in done.changes] == ["k safe 1"]
        assert [each.description for each in done.refused] == ["k safe edit"]
        assert "nowhere" in done.refused[0].reason

    @pytest.mark.parametrize("permission", list(Permission))
    def test_a_result_that_does_not_run_is_refused(self, permission: Permission):
        label = "safe" if permission is Permission.SAFE else "unsafe"
        done = self.repaired({"k": [(label, "shape")]}, permission)

        assert not done.changes
        (refused,) = done.refused
        assert refused.reason.startswith("ONNX Runtime cannot run the result: ")

    def test_of_many_places_the_faulty_ones_are_refused_and_the_others_fixed(self):
        kinds: KINDS = {f"k{index}": [("safe", 2 if index in {1, 6} else 1)] for index in range(9)}
        done = self.repaired(kinds, Permission.SAFE)

        assert sorted(each.description for each in done.changes) == [
            f"k{i} safe 1" for i in range(9) if i not in {1, 6}
        ]
        assert sorted(each.description for each in done.refused) == ["k1 safe 2", "k6 safe 2"]

    def test_safe_fixes_go_before_unsafe_ones(self):
        done = self.repaired({"k": [("unsafe", 2)], "m": [("safe", 1)]}, Permission.UNSAFE)

        assert [each.description for each in done.changes] == ["m safe 1", "k unsafe 2"]

    def test_a_fix_that_raises_the_opset_goes_alone(self):
        model = self.model("k", "m")
        kinds: KINDS = {"k": [("unsafe", 1)], "m": [("unsafe", "opset")]}
        repair = Repair(model, self.source(kinds), Prover(model, DataRequest(samples=3)), Permission.UNSAFE)
        done = repair.run()

        assert [each.description for each in done.changes] == ["m unsafe opset", "k unsafe 1"]
        assert (repair.model.default_opset(), model.default_opset()) == (22, 21)

    def test_the_opset_becomes_the_highest_that_a_fix_needs(self):
        model = self.model("k", "m")
        kinds: KINDS = {"k": [("safe", "opset")], "m": [("safe", "opset 23")]}
        repair = Repair(model, self.source(kinds), Prover(model, DataRequest(samples=3)), Permission.SAFE)

        assert len(repair.run().changes) == 2
        assert repair.model.default_opset() == 23

    def test_a_place_that_is_proposed_twice_is_fixed_once(self):
        model = self.model("k")
        once = self.source({"k": [("unsafe", 2)]})
        prover = Prover(model, DataRequest())
        done = Repair(model, lambda context: [*once(context), *once(context)], prover, Permission.UNSAFE).run()

        assert len(done.changes) == 1
        assert not done.refused

    def test_nothing_is_run_where_nothing_is_proposed(self):
        assert self.repaired({}, Permission.SAFE, self.model("k")) == Repaired()

    @pytest.mark.parametrize("permission", list(Permission))
    def test_a_model_that_does_not_run_is_fixed_without_a_proof_only_where_that_is_permitted(
        self, permission: Permission
    ):
        model = self.model("k", "m")
        model.proto.graph.node[1].op_type = "Mystery"
        done = self.repaired({"k": [("safe", 1)], "m": [("safe", 2)]}, permission, model)

        assert done.unproven is not None
        assert not done.outputs
        if permission is Permission.SAFE:
            assert not done.changes
            words = f"it cannot be proven: {done.unproven}; --unsafe-fixes applies it unproven"
            assert [(each.description, each.reason) for each in done.refused] == [
                ("k safe 1", words),
                ("m safe 2", words),
            ]
        else:
            assert [(each.label, each.proof) for each in done.changes] == [
                ("unsafe", f"not proven: {done.unproven}")
            ] * 2
            assert not done.refused

    @pytest.mark.parametrize("permission", [Permission.UNSAFE, Permission.REWRITE])
    def test_a_fix_that_cannot_be_carried_out_refuses_no_other_where_nothing_runs(self, permission: Permission):
        model = self.model("k", "m", "n")
        model.proto.graph.node[1].op_type = "Mystery"
        done = self.repaired({"k": [("safe", 1)], "m": [("safe", "edit")], "n": [("safe", 1)]}, permission, model)

        assert [each.description for each in done.changes] == ["k safe 1", "n safe 1"]
        assert [each.description for each in done.refused] == ["m safe edit"]

    @pytest.mark.parametrize("permission", [Permission.SAFE, Permission.UNSAFE])
    def test_samples_over_which_nothing_varies_permit_only_what_needs_no_proof(self, permission: Permission, tmp_path):
        np.savez(tmp_path / "d.npz", t0=np.tile(np.float32([1, 2, 3, 4]), (3, 1)))
        model = self.model("k")
        prover = Prover(model, DataRequest(path=tmp_path / "d.npz"))
        done = Repair(model, self.source({"k": [("safe", 1)]}), prover, permission).run()

        if permission is Permission.SAFE:
            assert [(each.description, each.reason) for each in done.refused] == [("k safe 1", NOTHING_VARIES)]
            assert not done.changes
        else:
            words = f"outputs are bit-equal on 3 samples ({tmp_path / 'd.npz'}), but {NOTHING_VARIES}"
            assert [(each.label, each.proof) for each in done.changes] == [("unsafe", words)]
            assert not done.refused


class TestPlaces:
    """Fixes whose place, description or edits are the same as those of others."""

    TEXT = """g (float[4] x, bool c) => (float[4] y) <float k = {3}, float m = {3}> {
        [one] a = Mul (x, k) [two] b = Mul (a, m)
        y = If (c) <
            then_branch = t () => (float[4] u) <float n = {2}> { [three] u = Mul (b, n) },
            else_branch = e () => (float[4] v) { v = Neg (b) }
        > }"""

    @staticmethod
    def multiply(value, factor: float, draft: Draft) -> None:
        array = numpy_helper.to_array(value.initializer) * np.float32(factor)
        draft.replace(value, draft.constant(value.scope, "fixed", array, TensorProto.FLOAT))

    @staticmethod
    def constants(context: RuleContext) -> dict[str, Value]:
        return {value.name: value for value in context.view.values() if value.initializer is not None and value.uses}

    def done(self, source: Source, permission: Permission = Permission.SAFE) -> Repaired:
        model = parsed(self.TEXT)
        return Repair(model, source, Prover(model, DataRequest(samples=3, seed=3)), permission).run()

    def test_a_refused_fix_leaves_one_of_the_same_words_elsewhere_alone(self):
        def source(context: RuleContext) -> Iterator[Proposal]:
            for name, value in self.constants(context).items():
                fix = Fix(Offer("safe", "s"), "multiplies", partial(self.multiply, value, 2 if name == "k" else 1))
                if name in {"k", "m", "n"}:
                    yield Proposal(code="T", node=value.uses[0].node, fixes=(fix,))

        done = self.done(source)
        assert [(each.node, each.graph) for each in done.changes] == [("two", ""), ("three", "y.then_branch")]
        assert [(each.node, each.graph, each.reason) for each in done.refused] == [
            ("one", "", "output 'y' differs on sample 0")
        ]

    @pytest.mark.parametrize("factor", [1, 2])
    def test_a_fix_of_the_whole_model_has_no_node(self, factor: int):
        def source(context: RuleContext) -> Iterator[Proposal]:
            if "k" in (values := self.constants(context)):
                fix = Fix(Offer("safe", "s"), "multiplies", partial(self.multiply, values["k"], factor))
                yield Proposal(code="T", node=None, fixes=(fix,))

        done = self.done(source)
        (each,) = (*done.changes, *done.refused)
        assert (each.code, each.node, each.graph, each.description) == ("T", None, "", "multiplies")
        assert len(done.changes) == (factor == 1)

    def test_of_two_fixes_of_one_thing_only_one_is_made(self):
        model = parsed("g (float[4] x) => (float[4] y) { a = Abs (x) y = LeakyRelu <alpha = 0.5> (a) }")

        def source(context: RuleContext) -> Iterator[Proposal]:
            node = context.view.main.nodes[1]
            for alpha in (0.25, 0.125):
                if node.attribute("alpha") == 0.5:
                    write = partial(lambda alpha, draft: draft.set_attribute(node, "alpha", alpha), alpha)
                    yield Proposal(code="T", node=node, fixes=(Fix(Offer("safe", "s"), f"sets {alpha}", write),))

        repair = Repair(model, source, Prover(model, DataRequest(samples=3)), Permission.SAFE)
        done = repair.run()
        assert [each.description for each in done.changes] == ["sets 0.25"]
        assert repair.model.proto.graph.node[1].attribute[0].f == 0.25
        assert not done.refused

    def test_edits_that_never_conflict_are_made_once(self):
        def raise_opset(draft: Draft) -> None:
            draft.opset = 22

        def source(context: RuleContext) -> list[Proposal]:
            fix = Fix(Offer("safe", "s"), "raises the opset", raise_opset)
            return [Proposal(code="T", node=None, fixes=(fix,))] * (2 if context.model.default_opset() < 22 else 0)

        assert len(self.done(source).changes) == 1

    def test_a_source_that_never_ends_ends_after_64_changes(self):
        """The model does not run, so that nothing is proven and the rounds are short."""
        model = parsed("g (float[4] x) => (float[4] y) <float k = {3}> { [n] y = Mystery (x, k) }")

        def source(context: RuleContext) -> Iterator[Proposal]:
            (value,) = self.constants(context).values()
            fix = Fix(Offer("safe", "s"), f"replaces {value.name}", partial(self.multiply, value, 1))
            yield Proposal(code="T", node=value.uses[0].node, fixes=(fix,))

        done = Repair(model, source, Prover(model, DataRequest(samples=1)), Permission.UNSAFE).run()
        assert len(done.changes) == 64
