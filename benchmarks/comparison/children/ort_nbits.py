"""ONNX Runtime's weight-only int4, as DequantizeLinear nodes: ``ort_nbits.py MODEL OUTPUT BLOCK_SIZE``.

It writes opset 21 over whatever opset the nodes are of, which is wrong for some; so the model is converted before.
"""

import argparse
import tempfile

import onnx
from onnxruntime.quantization.matmul_nbits_quantizer import DefaultWeightOnlyQuantConfig, MatMulNBitsQuantizer
from onnxruntime.quantization.quant_utils import QuantFormat
from peer_input import prepared

OPSET = 21


def main() -> None:
    """Quantize every MatMul, symmetric."""
    asked = _arguments()
    config = DefaultWeightOnlyQuantConfig(
        block_size=asked.block_size,
        is_symmetric=True,
        quant_format=QuantFormat.QDQ,
        op_types_to_quantize=("MatMul",),
    )
    with tempfile.TemporaryDirectory() as folder:
        model = onnx.load(prepared(asked.model, folder, asked.input_shapes, (OPSET, OPSET)))
    quantizer = MatMulNBitsQuantizer(model, algo_config=config)
    quantizer.process()
    quantizer.model.save_model_to_file(asked.output, use_external_data_format=False)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("output")
    parser.add_argument("block_size", type=int)
    parser.add_argument("--input-shapes", default="")
    return parser.parse_args()


if __name__ == "__main__":
    main()
