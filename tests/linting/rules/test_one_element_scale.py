"""Rule QL317: the layer dump shows float kernels exactly where we say so, and int8 or fp8 ones behind the fix."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from support.layer_dump import multiplied_types
from support.trt_verdict import TrtOracle

from qdqtool.jobs.fix import FixRequest, fix_model
from qdqtool.linting.policy import Policy
from qdqtool.linting.rules import RuleContext, get
from qdqtool.models import targets
from qdqtool.models.graph.io.save import inlined
from qdqtool.models.graph.model import Model

INT8, FP8 = TensorProto.INT8, TensorProto.FLOAT8E4M3FN
CODES = {INT8: "Int8", FP8: "FP8"}
# Operator, shape of the Q's scale, of the DQ's, of the weight's, type, whether a MaxPool stands in front.
FLOAT = {
    "a Conv": ("Conv", (1,), (1,), (), INT8, False),
    "the DQ alone": ("Conv", (), (1,), (), INT8, False),
    "fp8": ("Conv", (1,), (1,), (), FP8, False),
    "behind a MaxPool": ("Conv", (1,), (1,), (), INT8, True),
}
QUANTIZED = {
    "scalars": ("Conv", (), (), (), INT8, False),
    "the Q alone": ("Conv", (1,), (), (), INT8, False),
    "the weight": ("Conv", (), (), (1,), INT8, False),
    "a MatMul": ("MatMul", (1,), (1,), (), INT8, False),
    "a Gemm": ("Gemm", (1,), (1,), (), INT8, False),
}


def model(
    op: str, quantize: tuple[int, ...], dequantize: tuple[int, ...], of_weight: tuple[int, ...], kind: int, pooled: bool
) -> onnx.ModelProto:
    shape, rows = ((8, 8, 3, 3), [1, 8, 8, 8]) if op == "Conv" else ((16, 16), [8, 16])
    codes = np.random.default_rng(0).integers(0, 100, shape).astype(np.uint8).tobytes()
    stored = [helper.make_tensor("w", kind, shape, codes, raw=True)]
    for name, extents in (("s", quantize), ("t", dequantize), ("u", of_weight)):
        stored.append(numpy_helper.from_array(np.full(extents, 0.05, np.float32), name))
    read = "p" if pooled else "d"
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s"], ["q"], output_dtype=kind),
        helper.make_node("DequantizeLinear", ["q", "t"], ["d"]),
        helper.make_node("DequantizeLinear", ["w", "u"], ["v"]),
        helper.make_node("MaxPool", ["d"], ["p"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        helper.make_node(op, [read, "v"], ["y"], **({"pads": [1, 1, 1, 1]} if op == "Conv" else {})),
    ]
    kept = [node for node in nodes if pooled or node.op_type != "MaxPool"]
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, rows) for name in "xy"]
    graph = helper.make_graph(kept, "g", infos[:1], infos[1:], stored)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def is_found(proto: onnx.ModelProto) -> bool:
    return bool(list(get("QL317").run(RuleContext(Model(proto)), targets.get("tensorrt-rtx"))))


def is_quantized(proto: onnx.ModelProto, oracle: TrtOracle, kind: int) -> bool:
    """Whether the product multiplies codes, as the builder's layer dump says."""
    return multiplied_types(oracle.judge(proto, (120,)).layers, f"node_of_{proto.graph.node[-1].output[0]}") == {
        CODES[kind]
    }


@pytest.mark.builder
@pytest.mark.parametrize("name", [*FLOAT, *QUANTIZED])
def test_the_kernel_is_the_one_that_we_say(name: str, oracle: TrtOracle):
    given = (FLOAT | QUANTIZED)[name]
    proto = model(*given)
    assert is_found(proto) == (name in FLOAT) == (not is_quantized(proto, oracle, given[4]))


@pytest.mark.builder
@pytest.mark.parametrize("name", FLOAT)
def test_the_fix_brings_the_quantized_kernel_and_is_safe(name: str, oracle: TrtOracle):
    policy = Policy(targets=("tensorrt-rtx",), select=("QL317",))
    done = fix_model(Model(model(*FLOAT[name])), FixRequest(policy=policy))
    made = inlined(done.model)

    assert [change.label for change in done.report.changes] == ["safe"]
    assert made is not None
    assert is_quantized(made, oracle, FLOAT[name][4])
