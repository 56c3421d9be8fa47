"""The parts of TensorRT's Python modules that the child processes use, as types.

TensorRT is imported only in child processes, and never in an environment without it. So these types name its classes
for the type checker alone. ``tests/support/tensorrt_api/stubs`` has what NVIDIA's bindings say of themselves, for every
release that is supported; ``tests/builders/test_product.py`` holds the code of the child processes against each.
"""

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import tensorrt
    import tensorrt_rtx


class Product(Protocol):
    """The module ``tensorrt`` or ``tensorrt_rtx``."""

    __version__: str

    @property
    def ILogger(self) -> "type[tensorrt.ILogger]":  # noqa: N802  TensorRT's name
        """The base class of loggers."""

    @property
    def Builder(self) -> "type[tensorrt.Builder]":  # noqa: N802
        """Makes networks, configurations and engines."""

    @property
    def OnnxParser(self) -> "type[tensorrt.OnnxParser]":  # noqa: N802
        """Fills a network from an ONNX file."""

    @property
    def Runtime(self) -> "type[tensorrt.Runtime]":  # noqa: N802
        """Loads engines."""

    @property
    def NetworkDefinitionCreationFlag(self) -> "type[tensorrt.NetworkDefinitionCreationFlag]":  # noqa: N802
        """Kinds of networks."""

    @property
    def ProfilingVerbosity(self) -> "type[tensorrt.ProfilingVerbosity]":  # noqa: N802
        """How much an engine tells about its layers."""

    @property
    def LayerInformationFormat(self) -> "type[tensorrt.LayerInformationFormat]":  # noqa: N802
        """How the engine inspector writes."""

    @property
    def BuilderFlag(self) -> "type[tensorrt.BuilderFlag]":  # noqa: N802
        """Switches of a build."""

    @property
    def MemoryPoolType(self) -> "type[tensorrt.MemoryPoolType]":  # noqa: N802
        """Pools of memory that can be limited."""

    @property
    def IBuilderConfig(self) -> "type[tensorrt.IBuilderConfig]":  # noqa: N802
        """How an engine is built."""


class AheadOfTimeProduct(Protocol):
    """What the module ``tensorrt_rtx`` has besides."""

    @property
    def ComputeCapability(self) -> "type[tensorrt_rtx.ComputeCapability]":  # noqa: N802
        """The GPUs that can be named."""
