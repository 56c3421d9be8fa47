"""Open an engine with TensorRT or TensorRT for RTX, or an ONNX model with ONNX Runtime's provider."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from qdqtool.engines.gpu.requirements import require_packages
from qdqtool.engines.gpu.runner import Clock, LayerTime, Runner
from qdqtool.engines.gpu.tensor_types import fed_as, of_onnx
from qdqtool.errors import CapabilityError, GateError, ModelError, UsageError
from qdqtool.numerics.dtypes import Array
from qdqtool.samples.signature import InputSpec

_FATAL_ONLY = 4
# Without this, ONNX Runtime runs nodes on the CPU that the provider does not accept, and reports this only in its log.
# A check would then compare the CPU with itself, and times would be those of the CPU.
_NO_CPU = ("session.disable_cpu_ep_fallback", "1")


class OnnxRuntimeRunner:
    """An ONNX model on the GPU as a :class:`~qdqtool.engines.gpu.runner.Runner`.

    Raises:
        ModelError: The file is absent.
        CapabilityError: The provider finds no GPU that it supports, or an input has a type that NumPy lacks.
        GateError: The provider does not accept the whole model.
    """

    library = "onnxruntime"
    clock: Clock = "host"

    def __init__(self, path: Path) -> None:
        import onnxruntime as ort

        if not path.is_file():
            raise ModelError(f"{path}: no such file")
        self.version = str(ort.__version__)
        options = ort.SessionOptions()
        options.log_severity_level = _FATAL_ONLY
        options.add_session_config_entry(*_NO_CPU)
        options.add_provider_for_devices(_devices(ort), {})
        try:
            self._session: Any = ort.InferenceSession(str(path), sess_options=options)
        except Exception as error:  # noqa: BLE001  the binding's error classes derive from Exception one by one
            raise GateError(
                f"the provider cannot load {path}: {_line(error)}", hint="`qdqtool check MODEL` runs it on the CPU"
            ) from None
        self.inputs = tuple(_spec(each) for each in self._session.get_inputs())
        self.outputs = tuple(str(each.name) for each in self._session.get_outputs())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._session = None

    def example_inputs(self) -> tuple[InputSpec, ...]:
        """Return the inputs; the model must have no open extent."""
        for spec in self.inputs:
            if not all(isinstance(extent, int) for extent in spec.shape or ()):
                raise UsageError(
                    f"the shape of input '{spec}' has dynamic dimensions", hint="give samples: `--data DATA`"
                )
        return self.inputs

    def run(self, sample: Mapping[str, Array]) -> dict[str, Array]:
        """Run one sample."""
        try:
            found = self._session.run(None, dict(sample))
        except Exception as error:  # noqa: BLE001  as above
            raise GateError(f"the model does not run on the GPU: {_line(error)}") from None
        return dict(zip(self.outputs, found, strict=True))

    def time(self, sample: Mapping[str, Array], *, warm_up: int, runs: int) -> list[float]:
        """Run one sample repeatedly; times include the copies of inputs and outputs."""
        for _ in range(warm_up):
            self.run(sample)
        return [self._timed(sample) for _ in range(runs)]

    def profile(self, sample: Mapping[str, Array], *, runs: int) -> tuple[LayerTime, ...]:
        """Return no layers: for ONNX Runtime the compiled model is one node."""
        del sample, runs
        return ()

    def _timed(self, sample: Mapping[str, Array]) -> float:
        started = time.perf_counter()
        self.run(sample)
        return (time.perf_counter() - started) * 1000


def _devices(ort: Any) -> list[Any]:
    """Return the first GPU that the provider supports, as a list."""
    import onnxruntime_ep_nv_tensorrt_rtx as provider

    name = provider.get_ep_name()
    if not _found(ort, name):
        try:
            ort.register_execution_provider_library(name, provider.get_library_path())
        except Exception as error:  # noqa: BLE001  as above
            raise CapabilityError(
                f"ONNX Runtime cannot load the provider: {_line(error)}",
                hint="`qdqtool doctor` lists the driver and the versions of both packages",
            ) from None
    devices = _found(ort, name)
    if not devices:
        raise CapabilityError("ONNX Runtime's provider for TensorRT for RTX cannot use a GPU of this machine")
    return devices[:1]


def _found(ort: Any, name: str) -> list[Any]:
    return [device for device in ort.get_ep_devices() if device.ep_name == name]


def _spec(value: Any) -> InputSpec:
    dtype = fed_as(of_onnx(value.type, value.name))
    return InputSpec(str(value.name), dtype, tuple(value.shape))


def _line(error: Exception) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__


# The first bytes of an engine of TensorRT for RTX. Engines of TensorRT begin with other bytes.
_RTX_MAGIC = b"vtrt"


def library_of(path: Path, backend: str | None) -> str:
    """Return the library that runs a file: ``tensorrt``, ``tensorrt-rtx`` or ``onnxruntime``."""
    if path.suffix == ".onnx":
        return "onnxruntime"
    return backend or ("tensorrt-rtx" if _begins(path) == _RTX_MAGIC else "tensorrt")


def open_runner(path: Path, library: str) -> Runner:
    """Load a file on the GPU.

    Args:
        path: The engine, or the ONNX model.
        library: The library that runs it, from :func:`library_of`.
    """
    require_packages(library)
    if library == "onnxruntime":
        return OnnxRuntimeRunner(path)
    from qdqtool.engines.gpu.tensorrt_runner import TensorRTRunner

    return TensorRTRunner(path, library)


def _begins(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(len(_RTX_MAGIC))
    except OSError:
        return b""
