"""QM603: float weights behind a Q, whose codes would save a megabyte."""

import math

import numpy as np
import onnx
import pytest
from onnx import TensorProto as T
from onnx import helper
from support.corpus._case import node, tensor
from support.fixing import assert_same_bits, carried_out, read, refusal
from support.one_rule import faults

from qdqtool.linting.findings import Extent

SIZES = {T.FLOAT: 4, T.FLOAT16: 2, T.BFLOAT16: 2, T.DOUBLE: 8, T.INT32: 4}


def weights(*given: tuple[int, int, int], more: tuple[onnx.NodeProto, ...] = ()) -> onnx.ModelProto:
    """Float weights ``w0``, ``w1`` with a Q each, by their type, their number of elements and the type of the codes."""
    nodes, stored = [], [tensor("s", 1.0)]
    for index, (kind, count, codes) in enumerate(given):
        data = bytes(count * SIZES[kind])
        stored += [
            onnx.TensorProto(name=f"w{index}", data_type=kind, dims=[count], raw_data=data),
            tensor(f"z{index}", 0, codes),
        ]
        nodes.append(node("QuantizeLinear", [f"w{index}", "s", f"z{index}"], f"q{index}"))
        nodes.append(node("DequantizeLinear", [f"q{index}", "s", f"z{index}"], f"y{index}"))
    x = helper.make_tensor_value_info("x", T.FLOAT, [4])
    outputs = [onnx.ValueInfoProto(name=each.output[0]) for each in nodes[1::2]]
    graph = helper.make_graph([*more, *nodes], "g", [x], outputs, stored)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=11)


@pytest.mark.parametrize(
    ("kind", "count", "codes", "is_told"),
    [
        (T.FLOAT16, 1_000_000, T.INT8, True),
        (T.FLOAT16, 999_999, T.INT8, False),
        (T.BFLOAT16, 1_000_000, T.INT8, True),
        (T.DOUBLE, 142_858, T.INT8, True),
        (T.DOUBLE, 142_857, T.INT8, False),
        (T.FLOAT, 333_334, T.UINT8, True),
        (T.FLOAT, 333_333, T.UINT8, False),
        (T.FLOAT, 500_000, T.INT16, True),
        (T.FLOAT, 285_715, T.INT4, True),
        (T.FLOAT, 285_714, T.INT4, False),
        (T.FLOAT16, 999_999, T.INT16, False),
        # Its product with a scale is no weight of a network.
        (T.INT32, 1_000_000, T.INT8, False),
    ],
)
def test_a_saving_of_a_million_bytes_is_told(kind: int, count: int, codes: int, is_told: bool):
    found = faults("QM603", weights((kind, count, codes)))

    assert bool(found) == is_told
    for finding, _ in found:
        bits = {T.INT8: 8, T.UINT8: 8, T.INT16: 16, T.INT4: 4}[codes]
        wide, narrow = count * SIZES[kind], math.ceil(count * bits / 8)
        assert (
            finding.message == f"1 quantized weights are stored as float, in {wide} bytes; as codes they take {narrow}"
        )
        assert (finding.found, finding.expected) == (f"{wide} bytes", f"{narrow} bytes")
        assert finding.extent == Extent("", wide - narrow)


def test_all_weights_are_told_together_at_the_largest():
    model = weights((T.FLOAT, 500_000, T.INT8), (T.DOUBLE, 300_000, T.INT4), (T.FLOAT, 3, T.INT4))

    ((finding, fault),) = faults("QM603", model)

    assert finding.message == "3 quantized weights are stored as float, in 4400012 bytes; as codes they take 650002"
    assert (finding.tensor, finding.node) == ("w1", "QuantizeLinear -> q1")
    assert [fix.description for fix in fault.fixes] == ["stores the codes of 3 weights"]


def test_what_is_no_stored_weight_is_not_counted():
    more = (
        node("QuantizeLinear", ["x", "s", "z0"], "a"),
        node("QuantizeLinear", ["", "s", "z0"], "b"),
        node("QuantizeLinear", ["w0", "s", "u"], "c"),
        node("Unknown", ["x"], "u"),
    )
    ((finding, _),) = faults("QM603", weights((T.FLOAT16, 1_000_000, T.INT8), more=more))

    assert finding.message.startswith("1 quantized weights")


def test_the_fix_stores_the_codes_of_all():
    context = read(weights((T.FLOAT, 250_000, T.INT8), (T.FLOAT, 250_001, T.INT4)))
    for name, stored in zip(("w0", "w1"), context.model.proto.graph.initializer[1::2], strict=True):
        assert stored.name == name
        stored.raw_data = np.linspace(-20, 20, stored.dims[0], dtype=np.float32).tobytes()
    ((_, fault),) = faults("QM603", context.model.proto)

    changed = carried_out(context, fault.fixes[0])

    kinds = {each.name: each.data_type for each in changed.graph.initializer}
    assert (kinds["w0_quantized"], kinds["w1_quantized"]) == (T.INT8, T.INT4)
    assert_same_bits(context, changed, x=np.zeros(4, np.float32))


def test_a_q_without_output_is_refused():
    model = weights((T.FLOAT, 400_000, T.INT8))
    del model.graph.node[0].output[:]
    ((_, fault),) = faults("QM603", model)

    assert refusal(read(model), fault.fixes[0]) == "the Q has no output"
