"""TensorRT for RTX, which builds for named GPUs on any machine; the GPU compiles the kernels at the first run."""

from qdqtool.engines.tensorrt.tensorrt_builder import TensorRT

BUILDER = TensorRT(
    id="tensorrt-rtx",
    title="TensorRT for RTX",
    target="tensorrt-rtx",
    module="tensorrt_rtx",
    install="pip install tensorrt-rtx",
    remark="Linux x86-64 and Windows x64; no GPU is needed to build",
    # Measured on five models: the engine has the same bytes with any level, and with a timing cache. The
    # API calls operations on timing caches "no-ops", and without a GPU it cannot read even those that it wrote.
    idle_options=("--builder-optimization-level", "--timing-cache-file", "--error-on-timing-cache-miss"),
    # All members of ComputeCapability in the wheel but CURRENT, which needs a GPU. There is no SM90 or SM100.
    capabilities=("7.5", "8.0", "8.6", "8.9", "12.0", "12.1"),
)
