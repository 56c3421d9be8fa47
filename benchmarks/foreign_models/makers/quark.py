"""AMD Quark on ONNX files, by its named configurations."""

from quark.onnx import Config, ModelQuantizer
from quark.onnx.quantization.config.custom_config import get_default_config

from benchmarks.foreign_models.samples import Modes, Reader, Sample, Write


def _named(name: str) -> Write:
    def write(sample: Sample) -> None:
        config = get_default_config(name)
        if name == "MATMUL_NBITS":
            # Preprocessing makes Gemm of MatMul and Add, and this configuration quantizes no Gemm.
            config.extra_options["SkipPreprocess"] = True
        quantizer = ModelQuantizer(Config(global_quant_config=config))
        quantizer.quantize_model(str(sample.float_path), str(sample.path), Reader(sample.calibration()))

    return write


CONVOLUTIONS = ("XINT8", "A8W8", "S8S8_AAWS", "U8S8_AAWS", "U8U8_AAWA", "S16S8_ASWS", "A16W8", "BF16", "VINT8")
BLOCKS = (
    "INT8_TRANSFORMER_DEFAULT",
    "A8W8",
    "XINT8",
    "A16W8",
    "UINT8_DYNAMIC_QUANT",
    "MATMUL_NBITS",
    "BFP16",
    "MXINT8",
    "MXFP8E4M3",
    "MXFP4E2M1",
    "FP16",
)
MODES: Modes = {
    **{f"{name.lower()}_conv": ("conv", _named(name)) for name in CONVOLUTIONS},
    **{name.lower(): ("block", _named(name)) for name in BLOCKS},
}
"""The network and what writes its model, by mode."""
