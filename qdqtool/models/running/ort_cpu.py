"""ONNX Runtime on the CPU: the reference session that models are checked against.

The ``semantic`` profile computes what ONNX specifies. All optimizations are off, because they change results (measured
for a weight-only int4 MatMul: 45 dB at the default level, 131 dB without). It uses one thread, because the order of
float sums depends on the number of threads. In the ``unpacked`` profile, stored and computed weights are also
multiplied by the same kernel, with the same bits, to prove that a change keeps the results. The ``deployed`` profile
has ONNX Runtime's default options. The ``optimized`` profile has them too, but no Q or DQ is fused or moved. The
``lean`` profile replaces ``deployed`` if a session runs only once: weights are neither packed nor converted in advance.
"""

import ast
import ctypes
import functools
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from qdqtool.errors import CapabilityError
from qdqtool.models.graph.index.types import with_open_dimensions
from qdqtool.models.graph.io.copying import copy_model
from qdqtool.models.graph.io.offload import as_external_data
from qdqtool.models.graph.io.save import inlined, save_model
from qdqtool.models.graph.io.tensors import is_external, is_pending, iter_tensors
from qdqtool.models.graph.model import Model
from qdqtool.models.graph.scope import all_nodes
from qdqtool.models.options import ExternalData, Profile
from qdqtool.models.report import Reference
from qdqtool.models.running.custom_operators import (
    active,
    register,
    unknown_operator,
    with_stand_ins,
    without_functions,
)
from qdqtool.models.running.machine import cpu_features, cpu_name
from qdqtool.models.running.ort_errors import onnxruntime, run_error, session_error
from qdqtool.models.scratch import Closing, ScratchFolder
from qdqtool.numerics.dtypes import Array

PROVIDER = "CPUExecutionProvider"
# ONNX Runtime prints every failed run to stderr at level ERROR (3) in addition to raising an error.
_FATAL_ONLY = 4
MANY_FEEDS = 256
"""With this many inputs or more, ONNX Runtime's Python class is bypassed: its check takes quadratic time."""


class ModelSession(Closing):
    """A model that is ready to run."""

    @abstractmethod
    def run(self, feeds: Mapping[str, Array], outputs: Sequence[str] | None = None) -> dict[str, Array]:
        """Run the model once."""


class Session(ModelSession):
    """A model loaded in ONNX Runtime. Use it as a context manager, because it may own a temporary folder.

    Args:
        model: The model. External data is read from the model's folder; pending tensors are computed now.
        profile: The configuration of ONNX Runtime.

    Attributes:
        outputs: Names of the model's outputs, in order.

    Raises:
        CapabilityError: ONNX Runtime is not installed, or cannot run an operator, type or opset of the model.
        ModelError: ONNX Runtime refuses the model as invalid.
    """

    def __init__(self, model: Model, profile: Profile = Profile.SEMANTIC) -> None:
        self._open = ExitStack()
        try:
            folder, data = _serialized(model, self._open)
            self._session = _load(folder, data, profile, model.proto)
        except BaseException:
            self._open.close()
            raise
        del data
        give_back()
        self.outputs: tuple[str, ...] = tuple(output.name for output in self._session.get_outputs())

    def close(self) -> None:
        """Free the session and its temporary files."""
        self._session = None
        self._open.close()
        give_back()

    def typed_outputs(self) -> list[onnx.ValueInfoProto]:
        """Return the tensors among the outputs, with their types and the known extents of their shapes."""
        # For an unknown rank, the binding returns the shape of a scalar.
        return [
            onnx.helper.make_tensor_value_info(
                each.name,
                onnx.TensorProto.DataType.Value(each.type[7:-1].upper()),
                [extent if isinstance(extent, int) else None for extent in each.shape] or None,
            )
            for each in self._session.get_outputs()
            if each.type.startswith("tensor(")
        ]

    def run(self, feeds: Mapping[str, Array], outputs: Sequence[str] | None = None) -> dict[str, Array]:
        """Run the model once.

        Args:
            feeds: One array for each input.
            outputs: Names of the outputs to return; default all. ONNX Runtime cannot return types that NumPy lacks;
                :func:`qdqtool.models.transforms.taps.tap_tensors` makes such tensors readable. A sequence or map, which
                classifiers return, becomes one array of all its elements, with one axis.

        Raises:
            RunError: A node failed; the message names it.
        """
        names = list(self.outputs if outputs is None else outputs)
        try:
            arrays = self._run(names, dict(feeds))[: len(names)]
        except Exception as error:  # noqa: BLE001  the binding's error classes derive from Exception one by one
            raise run_error(error) from None
        return {name: _as_array(array) for name, array in zip(names, arrays, strict=True)}

    def _run(self, names: list[str], feeds: dict[str, Array]) -> list[Any]:
        found: list[Any]
        if len(feeds) < MANY_FEEDS:
            # For ONNX Runtime an empty list of names means all outputs.
            found = self._session.run(names or None, feeds)
        else:
            # InferenceSession.run of 1.31.1 looks for each input in a list of all fed names. A masked model has several
            # inputs for each Q/DQ pair; quantizing 2,000 nodes spent 12 of 84 processor seconds there. The binding that
            # the class calls checks the inputs too.
            found = self._session._sess.run(names or list(self.outputs), feeds, None)  # noqa: SLF001
        return found


def _as_array(found: object) -> Array:
    if isinstance(found, dict):
        return _as_array([found[key] for key in sorted(found)])
    if isinstance(found, list):
        return np.concatenate([_as_array(each).reshape(-1) for each in found]) if found else np.zeros(0)
    return np.asarray(found)


def reference(model: Model, profile: Profile = Profile.SEMANTIC) -> Reference:
    """Return the software and hardware with which a :class:`Session` of ``model`` computes."""
    return Reference(
        runtime="onnxruntime",
        version=str(onnxruntime().__version__),
        profile=profile.value,
        options=dict(_OPTIONS[profile]),
        providers=(PROVIDER,),
        cpu=cpu_name(),
        cpu_features=cpu_features(),
        opset=model.default_opset(),
        ir_version=model.proto.ir_version,
        custom_ops=active().libraries,
    )


# Effective only with optimizations: a safeguard in case somebody raises the level. Measured with 1.31.1: without these
# entries a weight-only MatMul of 4 or 8 bits becomes MatMulNBits with accuracy level 4, which quantizes the
# activations to int8.
_QDQ_ENTRY = {"session.disable_quant_qdq": "1"}
_UNPACKED_ENTRY = {"session.disable_prepacking": "1"}
_SEMANTIC_OPTIONS = {
    "graph_optimization_level": "ORT_DISABLE_ALL",
    # A float32 MatMul with K >= 512 gives different bits with 2 threads than with 1 (up to 8.6e-6 on |y| up to 12);
    # with K <= 256 the bits are equal.
    "intra_op_num_threads": "1",
    "inter_op_num_threads": "1",
    "execution_mode": "ORT_SEQUENTIAL",
    "use_deterministic_compute": "True",
    **_QDQ_ENTRY,
    "session.qdq_matmulnbits_accuracy_level": "1",
    "session.set_denormal_as_zero": "0",
}
_OPTIONS: Mapping[Profile, dict[str, str]] = {
    Profile.SEMANTIC: _SEMANTIC_OPTIONS,
    Profile.UNPACKED: _SEMANTIC_OPTIONS | _UNPACKED_ENTRY,
    Profile.OPTIMIZED: _QDQ_ENTRY,
    Profile.DEPLOYED: {},
    # Measured with 1.31.1 on a float16 decoder of 1.6 GB: the default level converts all weights to float32 in advance,
    # so opening takes 3.0 GB and 8.8 s, and a run takes 0.5 s. With these options, opening takes 0.1 s and a run 2 s.
    Profile.LEAN: {"graph_optimization_level": "ORT_ENABLE_BASIC", **_UNPACKED_ENTRY},
}
"""The options of sessions in words, for reports; a name with a dot is a configuration entry."""


def _session_options(profile: Profile) -> Any:
    ort = onnxruntime()
    options = ort.SessionOptions()
    options.log_severity_level = _FATAL_ONLY
    register(active().libraries, options)
    enums = {"graph_optimization_level": ort.GraphOptimizationLevel, "execution_mode": ort.ExecutionMode}
    for name, word in _OPTIONS[profile].items():
        if "." in name:
            options.add_session_config_entry(name, word)
        else:
            setattr(options, name, getattr(enums[name], word) if name in enums else ast.literal_eval(word))
    return options


def _serialized(model: Model, stack: ExitStack) -> tuple[Path, bytes]:
    """Return the folder of a model's external data and the serialized model. Intermediate copies are freed."""
    whole = without_functions(_self_contained(model, stack)).model
    return whole.folder, with_stand_ins(_with_node_names(with_open_dimensions(whole.proto))).SerializeToString()


def _load(folder: Path, data: bytes, profile: Profile, proto: onnx.ModelProto) -> Any:
    """Open a session from memory. A copy with additional outputs is not on disk, but its weights may be."""
    options = _session_options(profile)
    options.add_session_config_entry("session.model_external_initializers_file_folder_path", str(folder))
    try:
        # After an error the binding would print to stdout, which is for reports, and load the same model again.
        session = onnxruntime().InferenceSession(data, options, providers=[PROVIDER], enable_fallback=0)
    except Exception as error:  # noqa: BLE001  as in Session.run
        version = onnxruntime().__version__
        raise unknown_operator(error, version, proto) or session_error(error, version) from None
    if any(each.type == "tensor(bfloat16)" for each in (*session.get_inputs(), *session.get_outputs())):
        raise CapabilityError("ONNX Runtime passes no bfloat16 tensors to or from NumPy")
    # After an error of an execution provider, InferenceSession would print to stdout, and load and run the model again.
    # For that it keeps the serialized model, a second copy of the weights.
    session.disable_fallback()
    session._model_bytes = None  # noqa: SLF001
    return session


def _self_contained(model: Model, stack: ExitStack) -> Model:
    """Compute the pending tensors of ``model``, in memory or in a temporary folder that ``stack`` removes."""
    if not any(is_pending(tensor) for tensor in iter_tensors(model.proto)):
        return model
    mapped = as_external_data(model)
    if mapped is not None:
        whole, folders = mapped
        # A folder is deleted with its object, but the session maps its files: the stack keeps the objects alive.
        stack.callback(id, folders)
        return whole
    proto = inlined(model)
    if proto is not None:
        return Model(proto, model.path)
    folder = stack.enter_context(ScratchFolder())
    kept_outside = any(is_external(tensor) and not is_pending(tensor) for tensor in iter_tensors(model.proto))
    path = folder.path / "model.onnx"
    save_model(model, path, external_data=ExternalData.ALWAYS if kept_outside else ExternalData.AUTO)
    return Model(onnx.load(path, load_external_data=False), path)


def _with_node_names(proto: onnx.ModelProto) -> onnx.ModelProto:
    """Name unnamed nodes after their first output, because ONNX Runtime's errors give only the node name."""
    if all(node.name for node in all_nodes(proto)):
        return proto
    named = copy_model(proto)
    for node in all_nodes(named):
        node.name = node.name or f"{node.op_type} -> {next(filter(None, node.output), '(no output)')}"
    return named


def give_back() -> None:
    """Return freed memory to the system if the C library is glibc; otherwise do nothing."""
    # After a session is freed, glibc keeps its memory, in many pieces, for later allocations. Measured on a ResNet-50:
    # 544 MB before the trim and 319 MB after it, with only the model in use.
    trim = _malloc_trim()
    if trim is not None:
        trim(0)


@functools.cache
def _malloc_trim() -> Callable[[int], object] | None:
    try:
        found: Callable[[int], object] = ctypes.CDLL(None).malloc_trim
    # musl and macOS have no malloc_trim (AttributeError); CDLL(None) raises TypeError on Windows.
    except (OSError, AttributeError, TypeError):
        return None
    return found
