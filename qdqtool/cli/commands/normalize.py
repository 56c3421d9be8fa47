"""``qdqtool normalize``: rewrite foreign forms of quantization as Q/DQ."""

from pathlib import Path
from typing import Any

import click

from qdqtool.cli.declared import options_of, values_of
from qdqtool.cli.options import emit, model_argument, output_option, report_options
from qdqtool.jobs.options import NormalizeCommand


@click.command(short_help="Rewrite foreign forms of quantization as Q/DQ.")
@model_argument()
@output_option("The model to write.")
@options_of(NormalizeCommand)
@report_options
def command(*, model: Path, output: Path, output_format: str, **words: Any) -> None:
    """Rewrite what other tools write for quantization in MODEL as QuantizeLinear/DequantizeLinear.

    Operators on codes (QLinearConv, QLinearMatMul), products of data that is quantized at run time (MatMulInteger),
    weights in blocks (MatMulNBits), QONNX, Q/DQ of com.microsoft and of TensorRT, quantization spelled out in Div,
    Round, Clip and Mul, codes that Cast and Mul dequantize, Clips and idle Casts of codes, biases stored as codes,
    computed scales, and unsigned codes that signed ones can hold. Outputs are compared in ONNX Runtime: each change is
    proven, or the difference is printed.
    """
    from qdqtool.jobs.normalize import normalize_model
    from qdqtool.samples.request import data_request

    values = values_of(NormalizeCommand, words)
    storage = values.pop("external_data")
    emit(normalize_model(model, output, data=data_request(values), external_data=storage), output_format, "normalize")
