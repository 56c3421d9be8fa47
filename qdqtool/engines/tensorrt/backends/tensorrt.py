"""TensorRT, which builds on the GPU of this machine and for that GPU."""

from qdqtool.engines.tensorrt.tensorrt_builder import TensorRT

BUILDER = TensorRT(
    id="tensorrt",
    title="TensorRT",
    target="tensorrt",
    module="tensorrt",
    install="pip install tensorrt",
    remark="it needs an NVIDIA GPU; its libraries come from NVIDIA's own package index",
    needs_gpu=True,
)
