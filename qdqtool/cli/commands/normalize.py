"""``qdqtool normalize``: foreign forms of quantization into Q/DQ."""

from pathlib import Path

import click

from qdqtool.cli.options import (
    constant_data_option,
    emit,
    external_data_option,
    model_argument,
    output_format_option,
    output_option,
    samples_option,
    shapes_option,
    verbosity_options,
)


@click.command(short_help="Rewrite foreign forms of quantization as Q/DQ.")
@model_argument()
@output_option("The model to write.")
@samples_option("Samples to compare the outputs on, as for 'qdqtool check'.  [default: 4 random ones]")
@constant_data_option()
@shapes_option("--input-shapes", "Fix the shape of an input that the outputs are compared on")
@external_data_option()
@output_format_option()
@verbosity_options()
def command(  # noqa: PLR0913 -- one argument for each option
    *,
    model: Path,
    output: Path,
    data: Path | None,
    allow_constant_data: bool,
    input_shapes: tuple[str, ...],
    external_data: str,
    output_format: str,
) -> None:
    """Rewrite what other tools write for quantization in MODEL as QuantizeLinear/DequantizeLinear.

    Operators on codes (QLinearConv, QLinearMatMul), products of data that is quantized at run time (MatMulInteger),
    weights in blocks (MatMulNBits), QONNX, Q/DQ of com.microsoft and of TensorRT, quantization spelled out in Div,
    Round, Clip and Mul, codes that Cast and Mul dequantize, Clips and idle Casts of codes, biases stored as codes,
    computed scales, and unsigned codes that signed ones can hold. Outputs are compared in ONNX Runtime: each change is
    proven, or the difference is printed.
    """
    from qdqtool.jobs.normalize import normalize_model
    from qdqtool.models.graph.io.save import ExternalData
    from qdqtool.samples.input_shapes import parse_shapes
    from qdqtool.samples.request import DataRequest

    shapes = parse_shapes(input_shapes, "--input-shapes")
    request = DataRequest(path=data, allow_constant=allow_constant_data, input_shapes=shapes)
    report = normalize_model(model, output, data=request, external_data=ExternalData(external_data))
    emit(report, output_format, "normalize")
