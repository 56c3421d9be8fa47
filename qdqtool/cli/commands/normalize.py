"""``qdqtool normalize``: rewrite foreign forms of quantization as Q/DQ."""

from pathlib import Path
from typing import Any

import click

from qdqtool.cli.declared import options_of, values_of
from qdqtool.cli.options import emit, model_argument, output_option, report_options
from qdqtool.jobs.options import NormalizeCommand


@click.command(short_help="Rewrite the quantization of other tools as Q/DQ.")
@model_argument()
@output_option("The model to write.")
@options_of(NormalizeCommand)
@report_options
def command(*, model: Path, output: Path, output_format: str, **words: Any) -> None:
    """Rewrite the quantization of other tools in MODEL as QuantizeLinear/DequantizeLinear.

    Rewritten operators: QLinearConv and QLinearMatMul, MatMulInteger (data quantized at run time), MatMulNBits (weights
    in blocks), the operators of QONNX, and Q/DQ of com.microsoft and of TensorRT.

    Rewritten groups of nodes: Div, Round, Clip and Mul that quantize; Cast and Mul that dequantize; Clip and needless
    Cast of codes; computed scales. Biases stored as codes are rewritten too, and unsigned codes that fit a signed type.

    Operators of ONNX Runtime's optimizers that TensorRT does not build, such as SkipLayerNormalization, BiasGelu and
    GroupQueryAttention, are written as operators of ONNX.

    The outputs of both models are compared in ONNX Runtime. The report shows that they are equal, or the difference.
    """
    from qdqtool.jobs.normalize import normalize_model
    from qdqtool.samples.request import data_request

    values = values_of(NormalizeCommand, words)
    storage = values.pop("external_data")
    emit(normalize_model(model, output, data=data_request(values), external_data=storage), output_format, "normalize")
