"""ONNX Runtime's weight-only int4, as DequantizeLinear nodes: ``ort_nbits.py MODEL OUTPUT BLOCK_SIZE``."""

import sys

import onnx
from onnxruntime.quantization.matmul_nbits_quantizer import DefaultWeightOnlyQuantConfig, MatMulNBitsQuantizer
from onnxruntime.quantization.quant_utils import QuantFormat


def main() -> None:
    """Quantize every MatMul, symmetric."""
    model, output, block_size = sys.argv[1:4]
    config = DefaultWeightOnlyQuantConfig(
        block_size=int(block_size), is_symmetric=True, quant_format=QuantFormat.QDQ, op_types_to_quantize=("MatMul",)
    )
    quantizer = MatMulNBitsQuantizer(onnx.load(model), algo_config=config)
    quantizer.process()
    quantizer.model.save_model_to_file(output, use_external_data_format=False)


if __name__ == "__main__":
    main()
