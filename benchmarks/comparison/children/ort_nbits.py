"""ONNX Runtime's weight-only int4, as DequantizeLinear nodes: ``ort_nbits.py MODEL OUTPUT BLOCK_SIZE``.

It writes opset 21 over whatever opset the nodes are of, which is wrong for some; so the model is converted before.
"""

import sys

import onnx
from onnx import version_converter
from onnxruntime.quantization.matmul_nbits_quantizer import DefaultWeightOnlyQuantConfig, MatMulNBitsQuantizer
from onnxruntime.quantization.quant_utils import QuantFormat

OPSET = 21


def main() -> None:
    """Quantize every MatMul, symmetric."""
    model, output, block_size = sys.argv[1:4]
    config = DefaultWeightOnlyQuantConfig(
        block_size=int(block_size), is_symmetric=True, quant_format=QuantFormat.QDQ, op_types_to_quantize=("MatMul",)
    )
    quantizer = MatMulNBitsQuantizer(converted(onnx.load(model)), algo_config=config)
    quantizer.process()
    quantizer.model.save_model_to_file(output, use_external_data_format=False)


def converted(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model in the opset that blocks need."""
    known = {entry.domain: entry.version for entry in model.opset_import}
    return model if known[""] >= OPSET else version_converter.convert_version(model, OPSET)


if __name__ == "__main__":
    main()
