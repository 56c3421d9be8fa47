"""Operators of ONNX Runtime's optimizers become operators of ONNX with the same outputs, or stay with the reason."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto
from onnxruntime.capi import onnxruntime_pybind11_state as state
from support.small import run

from benchmarks.contrib import DOMAIN, Variant
from qdqtool.jobs.normalize import normalized_model
from qdqtool.linting.repair.forms.contrib_operators import _BODIES, find
from qdqtool.linting.repair.report import Repaired
from qdqtool.linting.rules import Draft, RuleContext, UnfitError
from qdqtool.models.graph.edits.naming import Namer
from qdqtool.models.graph.model import Model
from qdqtool.models.ops.microsoft import WRITTEN_AS_ONNX
from qdqtool.samples.request import DataRequest

SCHEMAS = {each.name: each for each in state.get_all_operator_schema() if each.domain == DOMAIN}
QKV = "2,8,32 2,8,32 2,8,32"
GROUPED = "1,4,32 1,4,16 1,4,16 1,1,6,16 1,1,6,16 1=9 =10"
"""Four new tokens behind six of the cache; two heads share one head of keys and values."""
TWO = "num_heads = 2"
SHARED = "num_heads = 2, kv_num_heads = 1"

SAME = [
    ("BiasGelu", "2,8,32 @32", "", 1),
    ("FastGelu", "2,8,32 @32", "", 1),
    ("FastGelu", "2,8,32", "", 1),
    ("QuickGelu", "2,8,32", "alpha = 1.5", 1),
    ("SkipLayerNormalization", "2,8,32 2,8,32 @32 @32 @32", "epsilon = 0.001", (0, 3)),
    ("SkipLayerNormalization", "2,8,32 2,8,32 @32", "", 1),
    ("EmbedLayerNormalization", "2,8=3,1 2,8=0,1 @50,32 @16,32 @2,32 @32 @32 2,8=1,1,0", "epsilon = 0.01", 3),
    ("EmbedLayerNormalization", "2,8=3,1 - @50,32 @16,32 - @32 @32 - 2,8=5,2", "", (0, 2)),
    ("FusedMatMul", "3,5,4 @3,6,5", "alpha = 0.5, transA = 1, transB = 1", 1),
    ("TransposeMatMul", "2,8,32 @32,16", "", 1),
    ("FusedGemm", "4,32 @16,32 @16", 'transB = 1, alpha = 0.5, activation = "LeakyRelu", activation_alpha = 0.3', 1),
    ("FusedGemm", "4,32 @32,16", 'activation = "HardSigmoid", activation_alpha = 0.3, activation_beta = 0.4', 1),
    ("FusedConv", "1,8,9,9 @8,8,3,3 @8 1,8,7,7", 'activation = "Relu"', 1),
    ("FusedConv", "1,8,9,9 @8,1,3,3", 'activation = "Clip", activation_params = [0.0, 0.2], group = 8', 1),
    ("Attention", "2,8,32 @32,96 @96", TWO, 1),
    ("Attention", "2,8,32 @32,96 @96 2,8=1,1,1,0", f"{TWO}, scale = 0.5", 1),
    ("Attention", "2,8,32 @32,96 @96 2=5,8", TWO, 1),
    ("Attention", "2,8,32 @32,96 @96 2,8,8=1,1,0,1,1", f"{TWO}, unidirectional = 1", 1),
    ("Attention", "2,8,32 @32,80 @80 - - 2,2,8,8", f"{TWO}, qkv_hidden_sizes = [32, 32, 16]", 1),
    ("MultiHeadAttention", f"{QKV} @96", TWO, 1),
    ("MultiHeadAttention", f"{QKV} - 2,8=1,1,1,0,0", f"{TWO}, scale = 0.3", 1),
    ("MultiHeadAttention", f"{QKV} - - 1,2,8,8", f"{TWO}, unidirectional = 1", 1),
    ("MultiHeadAttention", f"{QKV} - - - 2,2,4,16 2,2,4,16", TWO, 3),
    ("MultiHeadAttention", "2,8,32 2,2,6,16 2,2,6,16", TWO, 1),
    ("GroupQueryAttention", GROUPED, SHARED, 3),
    ("GroupQueryAttention", "1,8,64 - - - - 1=7 =8", SHARED, 3),
    ("GroupQueryAttention", f"{GROUPED} @16,8 @16,8", f"{SHARED}, do_rotary = 1, rotary_interleaved = 1", 3),
    ("GroupQueryAttention", f"{GROUPED} @16,8 @16,8", f"{SHARED}, do_rotary = 1, local_window_size = 3", 3),
    ("GroupQueryAttention", GROUPED, f"{SHARED}, softcap = 2.0, scale = 0.7", 3),
    ("GroupQueryAttention", "2,4,32 2,4,32 2,4,32 - - 2=3 =4 - - - 1,2,4,4", "num_heads = 2, kv_num_heads = 2", 3),
]

LEFT = [
    ("FusedMatMul", "2,8,5,4 @2,8,5,6", "transBatchA = 1", "it transposes the batch"),
    (
        "FusedGemm",
        "4,32 @32,16",
        'activation = "Elu", activation_alpha = 0.3',
        "its activation 'Elu' has no other form",
    ),
    ("Attention", "2,1,32 @32,96 @96 - 2,2,2,4,16", TWO, "its input 4 has no other form"),
    ("MultiHeadAttention", "2,8,2,3,16", TWO, "its queries, keys and values are packed"),
    ("GroupQueryAttention", GROUPED, f"{SHARED}, smooth_softmax = 1", "its attribute smooth_softmax has no other form"),
]


def model(op_type: str, inputs: str, attributes: str, outputs: int | tuple[int, ...] = 1) -> onnx.ModelProto:
    numbers = outputs if isinstance(outputs, tuple) else tuple(range(outputs))
    made = Variant(op_type, tuple(inputs.split()), attributes, numbers, "").model(SCHEMAS[op_type], "float32")
    assert made is not None
    return made


def normalized(proto: onnx.ModelProto) -> tuple[onnx.ModelProto, Repaired]:
    result = normalized_model(Model(proto), DataRequest(samples=2))
    return result.model.proto, result.report


def feeds(proto: onnx.ModelProto) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(4)
    shapes = {info.name: [dim.dim_value for dim in info.type.tensor_type.shape.dim] for info in proto.graph.input}
    return {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}


@pytest.mark.parametrize("case", SAME, ids=lambda case: f"{case[0]} {case[1]} {case[2]}")
def test_the_outputs_are_the_same(case: tuple[str, str, str, int]):
    proto = model(*case)
    written, report = normalized(proto)

    assert report.refused == ()
    assert not any(node.domain and node.op_type != "RotaryEmbedding" for node in written.graph.node)
    given = feeds(proto)
    for found, expected in zip(run(written, given), run(proto, given), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("case", LEFT, ids=lambda case: case[3])
def test_what_has_no_other_form_stays_with_the_reason(case: tuple[str, str, str, str]):
    written, report = normalized(model(*case[:3]))
    assert [refused.reason for refused in report.refused] == [case[3]]
    assert written.graph.node[0].op_type == case[0]


@pytest.mark.parametrize(("attributes", "rest"), [(TWO, ""), (TWO, " - - 1,2,8,8"), (f"{TWO}, unidirectional = 1", "")])
def test_what_tensorrt_builds_stays(attributes: str, rest: str):
    written, report = normalized(model("MultiHeadAttention", QKV + rest, attributes))
    assert (report.changes, report.refused) == ((), ())
    assert [node.op_type for node in written.graph.node] == ["MultiHeadAttention"]


def test_an_epsilon_for_which_tensorrt_has_another_default_is_stored():
    proto = model("SkipSimplifiedLayerNormalization", "2,8,32 2,8,32 @32", "")
    written, report = normalized(proto)
    assert [change.label for change in report.changes] == ["safe"]
    assert [each.f for each in written.graph.node[0].attribute] == [pytest.approx(1e-12)]
    again, nothing = normalized(written)
    assert nothing.changes == ()
    assert again.graph.node[0].attribute == written.graph.node[0].attribute


def test_a_mask_of_padding_makes_grouped_attention_differ_and_the_report_shows_it():
    """Two sequences of different lengths: ONNX Runtime puts the new token of each behind its own past."""
    proto = model("GroupQueryAttention", "2,1,32 2,1,16 2,1,16 2,1,6,16 2,1,6,16 2=6,3 =7", SHARED, 3)
    _, report = normalized(proto)
    assert {change.label for change in report.changes} == {"unsafe"}
    assert "exact if no sequence is padded" in report.changes[0].description
    assert any(output.max_abs for output in report.outputs)


@pytest.mark.parametrize(("text", "reason"), [("num_heads = 0", "must be positive"), ("num_heads = 2", "unknown")])
def test_a_damaged_attention_is_refused(text: str, reason: str):
    proto = model("Attention", "2,8,32 @32,96 @96 2,8=1", text)
    proto.graph.initializer.pop(0)
    (found,) = find(RuleContext(Model(proto)))
    with pytest.raises(UnfitError, match=reason):
        found[1].write(Draft(RuleContext(Model(proto)), Namer(RuleContext(Model(proto)).view)))


def test_a_local_function_of_the_name_is_the_users_own():
    proto = model("QuickGelu", "2,8,32", "")
    body = '<domain: "com.microsoft", opset_import: ["": 21]> QuickGelu (x) => (y) { y = Relu (x) }'
    proto.functions.append(onnx.parser.parse_function(body))
    assert list(find(RuleContext(Model(proto)))) == []


def test_half_precision_data_gets_constants_of_its_type():
    proto = Variant("QuickGelu", ("2,8,32",), "", (0,), "").model(SCHEMAS["QuickGelu"], "float16")
    assert proto is not None
    written, _ = normalized(proto)
    assert [each.data_type for each in written.graph.initializer] == [TensorProto.FLOAT16]


def test_every_operator_with_a_form_is_named_to_users():
    assert _BODIES.keys() == WRITTEN_AS_ONNX
