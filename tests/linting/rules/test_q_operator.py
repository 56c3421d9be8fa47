"""QT403: operators of other quantized formats are known by domain and name, unless the model defines them."""

import pytest
from support.one_rule import messages, parsed

CONSUMERS = ("tensorrt", "ort-cpu")
FUNCTION = '<domain: "{domain}", opset_import: ["": 21]> {name} (x) => (y) {{ y = Relu (x) }}'


def calling(operator: str, *, defined: bool = False) -> str:
    domain, _, name = operator.rpartition(".")
    imports = f', "{domain}": 1' if domain else ""
    return parsed(
        f"""<ir_version: 10, opset_import: ["": 21{imports}]>
        agraph (float[2] x) => (float[2] y) {{ y = {operator} (x) }}
        {FUNCTION.format(domain=domain, name=name) if defined else ""}"""
    )


@pytest.mark.parametrize(
    ("operator", "unknown_to"),
    [
        ("Relu", ()),
        ("QLinearConv", ("tensorrt",)),
        ("ConvInteger", ("tensorrt",)),
        ("DynamicQuantizeLinear", ("tensorrt",)),
        ("QLinearAnything", ("tensorrt",)),
        ("MyQLinear", ()),
        ("QGemm", ("tensorrt",)),
        ("com.microsoft.QGemm", ("tensorrt",)),
        ("com.microsoft.QLinearAdd", ("tensorrt",)),
        ("com.microsoft.MyQLinear", ()),
        ("com.microsoft.ConvInteger", ()),
        ("com.microsoft.DynamicQuantizeLinear", ()),
        ("com.microsoft.Gelu", ()),
        ("own.QGemm", ()),
        ("own.QLinearConv", ()),
        ("TRT_MXFP8DynamicQuantize", ("ort-cpu",)),
        ("trt.TRT_MXFP8DynamicQuantize", ("ort-cpu",)),
        # QS015 reports those that ONNX has too.
        ("trt.TRT_FP8QuantizeLinear", ()),
        ("MyTRT_", ()),
        ("qonnx.custom_op.general.Quant", ("tensorrt", "ort-cpu")),
        ("onnx.brevitas.BipolarQuant", ("tensorrt", "ort-cpu")),
        ("qonnx.custom_op.general.Im2Col", ()),
    ],
)
def test_names(operator: str, unknown_to: tuple[str, ...]):
    titles = {"tensorrt": "TensorRT", "ort-cpu": "ONNX Runtime"}
    for target in CONSUMERS:
        found = messages("QT403", calling(operator), target)
        assert len(found) == (target in unknown_to)
        assert all(each.startswith(f"operator {operator} is unknown to {titles[target]}") for each in found)


@pytest.mark.parametrize(
    "operator", ["com.microsoft.QGemm", "trt.TRT_MXFP8DynamicQuantize", "qonnx.custom_op.general.Quant"]
)
def test_what_the_model_defines_itself_is_known(operator: str):
    model = calling(operator, defined=True)

    assert [messages("QT403", model, target) for target in CONSUMERS] == [[], []]
