"""TensorRT for RTX: parses and builds on any machine, for the GPUs that are named; just-in-time code at first run."""

from qdqtool.engine.tensorrt_builder import TensorRT

BUILDER = TensorRT(
    id="tensorrt-rtx",
    title="TensorRT for RTX",
    target="tensorrt-rtx",
    module="tensorrt_rtx",
    install="pip install tensorrt-rtx",
    remark="Linux x86-64 and Windows x64; no GPU is needed to build",
    capabilities=("7.5", "8.0", "8.6", "8.9", "12.0", "12.1"),
)
