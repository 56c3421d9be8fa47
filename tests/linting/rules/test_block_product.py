"""Rule QT418: which products with a weight in blocks the builder refuses, and what the fix makes of them."""

from collections.abc import Iterator

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from support.ort_verdict import ort_run
from support.trt_verdict import TrtOracle

from qdqtool.jobs.fix import FixRequest, fix_model
from qdqtool.linting.policy import Policy
from qdqtool.linting.rules import RuleContext, get
from qdqtool.models import targets
from qdqtool.models.graph.io.save import inlined
from qdqtool.models.graph.model import Model

K, N = 32, 16
CASES = {
    "a batch": ((2, 8), 0, 8, "int8", False),
    "four dimensions": ((1, 2, 8), 0, 8, "int8", False),
    "blocks of the columns": ((1, 8), 1, 8, "int8", False),
    "int4": ((1, 8), 0, 8, "int4", False),
    "behind a Transpose": ((8,), 0, 8, "int8", True),
    "a batch, and behind a Transpose": ((2, 8), 0, 8, "int4", True),
}
HARMLESS = {"a matrix": ((8,), 0, 8, "int8", False), "one block": ((2, 8), 0, K, "int8", False)}


@pytest.fixture
def oracle() -> Iterator[TrtOracle]:
    # A builder that has failed once refuses good models of this kind too, so each test has a process of its own.
    oracle = TrtOracle()
    yield oracle
    oracle.close()


def model(
    rows: tuple[int | str, ...], axis: int, block: int, kind: str, transposed: bool, *, quantized: bool = True
) -> onnx.ModelProto:
    """A product of rows and a [K, N] weight in blocks, which may be stored as [N, K]."""
    random = np.random.default_rng(0)
    shape = (N, K) if transposed else (K, N)
    at = 1 - axis if transposed else axis
    codes = random.integers(-7, 8, shape).astype(np.int8)
    counts = [extent // block if index == at else extent for index, extent in enumerate(shape)]
    blocks = random.uniform(0.01, 0.02, counts).astype(np.float32)
    stored_type = TensorProto.INT4 if kind == "int4" else TensorProto.INT8
    weight = helper.make_tensor("w", stored_type, shape, codes.ravel().tolist())
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s"], ["q"], output_dtype=TensorProto.INT8),
        helper.make_node("DequantizeLinear", ["q", "s"], ["xd"]),
        helper.make_node("DequantizeLinear", ["w", "ws"], ["wd"], axis=at, block_size=block),
        helper.make_node("Transpose", ["wd"], ["wt"], perm=[1, 0]),
        helper.make_node("MatMul", ["xd" if quantized else "x", "wt" if transposed else "wd"], ["y"]),
    ]
    kept = [node for node in nodes if transposed or node.op_type != "Transpose"]
    kept = [node for node in kept if quantized or "s" not in node.input]
    stored = [weight, numpy_helper.from_array(blocks, "ws"), numpy_helper.from_array(np.float32(0.02), "s")]
    infos = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [*rows, last]) for name, last in (("x", K), ("y", N))
    ]
    graph = helper.make_graph(kept, "g", infos[:1], infos[1:], stored)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def is_found(proto: onnx.ModelProto) -> bool:
    return bool(list(get("QT418").run(RuleContext(Model(proto)), targets.get("tensorrt-rtx"))))


@pytest.mark.builder
@pytest.mark.parametrize("name", [*CASES, *HARMLESS])
def test_the_builder_refuses_what_we_say(name: str, oracle: TrtOracle):
    proto = model(*(CASES | HARMLESS)[name])
    assert is_found(proto) == (name in CASES) == (not oracle.judge(proto).accepted)


@pytest.mark.builder
def test_a_float_activation_is_harmless(oracle: TrtOracle):
    proto = model(*CASES["a batch"], quantized=False)
    assert not is_found(proto)
    assert oracle.judge(proto).accepted


@pytest.mark.slow(reason="builds several engines")
@pytest.mark.builder
@pytest.mark.parametrize("name", CASES)
def test_the_fix_makes_a_model_that_builds_with_the_same_numbers(name: str, oracle: TrtOracle):
    given = model(*CASES[name])
    done = fix_model(Model(given), FixRequest(policy=Policy(targets=("tensorrt-rtx",), select=("QT418",))))

    assert [change.label for change in done.report.changes] == ["safe"]
    made = inlined(done.model)
    assert made is not None
    verdict = oracle.judge(made)
    assert verdict.accepted, verdict.message
    x = np.random.default_rng(1).normal(size=[*CASES[name][0], K]).astype(np.float32)
    np.testing.assert_array_equal(ort_run(made, x), ort_run(given, x))


@pytest.mark.parametrize(("rows", "label"), [(("N", 8), "safe"), (("N", "M"), "unsafe")])
def test_one_open_dimension_is_computed_and_two_leave_the_float_activation(rows: tuple[str, int], label: str):
    given = model(rows, 0, 8, "int8", transposed=False)
    request = FixRequest(policy=Policy(targets=("tensorrt-rtx",), select=("QT418",)), unsafe=True)
    done = fix_model(Model(given), request)

    assert [change.label for change in done.report.changes] == [label]
    assert not is_found(done.model.proto)
