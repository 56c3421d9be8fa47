"""What the terminal says of what is in a model."""

from dataclasses import replace

from support.printed import ESCAPED, HOSTILE, cells, printed

from qdqtool.jobs.inspect_report import Coverage, InspectReport, QdqGroup, TensorInfo
from qdqtool.models.report import Work
from qdqtool.reports.text.inspect import render, shape_text

TENSOR = TensorInfo(
    name="x", graph="then", kind="input", type="float32", shape=("N", 3, None), quantized=True, consumers=("a", "b")
)
GROUP = QdqGroup(
    op_type="QuantizeLinear",
    kind="activation",
    format="int8",
    granularity="per-tensor",
    count=2,
    scale_min=0.25,
    scale_max=0.5,
)
REPORT = InspectReport(
    model="m.onnx",
    bytes=1500,
    missing_data=(),
    weight_bytes={"float32": 1000, "int8": 0},
    ir_version=10,
    opset_imports={"ai.onnx": 21},
    producer="pytorch 2",
    inputs=(TENSOR,),
    outputs=(replace(TENSOR, name="y", shape=None),),
    nodes=5,
    scopes=1,
    groups=(),
    coverage=(),
    tensors=(),
)


def lines(**changes: object) -> list[str]:
    return printed(render, replace(REPORT, **changes)).splitlines()


def test_the_head_has_sizes_versions_inputs_and_outputs():
    assert lines()[:6] == [
        "m.onnx",
        "  1.5 kB; stored tensors: float32 1 kB",
        "  opset ai.onnx 21; IR version 10; producer pytorch 2",
        "  5 nodes, 1 body or function scope",
        "  input x: float32[N, 3, ?]",
        "  output y: float32[...]",
    ]
    assert "  1.5 kB; stored tensors: none" in lines(weight_bytes={})
    assert "  opset ai.onnx 21; IR version 10; producer unknown" in lines(producer="")


def test_a_model_without_qdq_is_said_to_have_none():
    assert lines()[-1] == "no QuantizeLinear or DequantizeLinear"


def test_qdq_groups_have_the_span_of_their_scales():
    computed = replace(GROUP, op_type="DequantizeLinear", scale_min=None, scale_max=None)
    rows = cells("\n".join(lines(groups=(GROUP, computed))))
    assert ["activation", "int8", "per-tensor", "QuantizeLinear", "2", "0.25 to 0.5"] in rows
    assert ["activation", "int8", "per-tensor", "DequantizeLinear", "2", "not constant"] in rows


def test_missing_external_data_is_named_and_its_scales_are_not_called_computed():
    text = lines(missing_data=("w.bin", HOSTILE), groups=(replace(GROUP, scale_min=None, scale_max=None),))
    assert f"  external data is missing: w.bin, {ESCAPED}; scales in these files are unknown" in text
    assert ["activation", "int8", "per-tensor", "QuantizeLinear", "2", "not known"] in cells("\n".join(text))


def test_coverage_counts_the_float_rest():
    rows = cells("\n".join(lines(coverage=(Coverage(op_type="Conv", total=9, quantized=4, partly=2),))))
    assert ["Conv", "9", "4", "2", "3"] in rows


def test_work_by_type_and_how_a_float32_rest_is_cast():
    work = Work(by_type={"float32": 1_000, "int8": 3_000}, weight_bytes={"int8": 64}, float32={"fc": 1_000})
    assert lines(work=work)[-3:] == [
        "",
        "  multiply-accumulates: 3 k in int8 (75.00%), 1 k in float32 (25.00%)",
        "  for TensorRT: `qdqtool cast m.onnx --to fp16 -o OUT.onnx` converts the float32 nodes to half precision",
    ]
    for good in (replace(work, float32={}), Work(by_type={"float32": 9}, float32={"fc": 9})):
        assert lines(work=good)[-1].startswith("  multiply-accumulates: ")


def test_tensors_are_listed_where_asked_for():
    rows = cells("\n".join(lines(tensors=(TENSOR, replace(TENSOR, quantized=False)))))
    assert rows[-2:] == [
        ["x", "then", "input", "float32[N, 3, ?]", "yes", "a, b"],
        ["x", "then", "input", "float32[N, 3, ?]", "a, b"],
    ]


def test_names_of_dimensions_are_escaped():
    assert shape_text((HOSTILE, 3)) == f"[{ESCAPED}, 3]"
    assert shape_text(()) == "[]"
