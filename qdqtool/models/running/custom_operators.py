"""Operators that ONNX Runtime lacks: libraries and stand-ins that the user names, for every session of a command.

A library has kernels. A stand-in is a local function of the same name and domain as an unknown operator; sessions run
it in place of the operator, and no file gets it. TensorRT's parser would use a function in a file instead of its plugin
(measured with TensorRT for RTX 1.7.1).

The operators are a context variable, so calls of Python in different threads do not share them. A library runs code.
Therefore only the command line and Python name one: no model, recipe or settings file can.
"""

import contextlib
import hashlib
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import onnx

from qdqtool.errors import CapabilityError, UsageError
from qdqtool.models.graph.index.tensorrt_operators import DOMAIN
from qdqtool.models.graph.index.view import DEFAULT_DOMAINS
from qdqtool.models.graph.io.copying import copy_model
from qdqtool.models.graph.io.load import check_text, load_model
from qdqtool.models.graph.io.tensors import is_external, iter_tensors
from qdqtool.models.graph.model import Model, Transformed
from qdqtool.models.graph.scope import all_nodes
from qdqtool.models.report import CustomLibrary, InlinedFunction
from qdqtool.models.running.ort_errors import onnxruntime, parts_of
from qdqtool.models.transforms.inline_functions import inline_called

Operator = tuple[str, str]
"""Domain and name of an operator."""

_OF_ONNXRUNTIME = frozenset({"com.microsoft", "com.microsoft.experimental", "com.microsoft.nchwc"})
_UNREGISTERED = re.compile(
    r"is not a registered function/op|No Op registered for |Could not find an implementation for "
)


@dataclass(frozen=True, slots=True)
class CustomOperators:
    """The operators that sessions get in addition to those of ONNX Runtime.

    Attributes:
        libraries: The libraries.
        stand_ins: The functions that replace operators, by domain and name.
    """

    libraries: tuple[CustomLibrary, ...] = ()
    stand_ins: Mapping[Operator, onnx.FunctionProto] = field(default_factory=dict)


_NONE = CustomOperators()
_ACTIVE: ContextVar[CustomOperators] = ContextVar("custom operators", default=_NONE)


def active() -> CustomOperators:
    """Return the operators that sessions get now."""
    return _ACTIVE.get()


@contextlib.contextmanager
def running_with(operators: CustomOperators) -> Iterator[None]:
    """Give operators to every session that is made during a block."""
    token = _ACTIVE.set(operators)
    try:
        yield
    finally:
        _ACTIVE.reset(token)


@contextlib.contextmanager
def named_operators(libraries: Sequence[str | Path] = (), stand_in: str | Path | None = None) -> Iterator[None]:
    """Give the operators of files to every session that is made during a block.

    Args:
        libraries: Libraries for ``register_custom_ops_library`` of ONNX Runtime.
        stand_in: An ONNX file with local functions.

    Raises:
        UsageError: A file is no such library, or has no such functions.
        ModelError: The file with functions cannot be read.
        CapabilityError: ONNX Runtime is not installed.
    """
    if not libraries and stand_in is None:
        yield
        return
    named = _libraries([*dict.fromkeys(map(Path, libraries))])
    with running_with(CustomOperators(named, {} if stand_in is None else _stand_ins(Path(stand_in)))):
        yield


def require_libraries(operators: CustomOperators) -> None:
    """Check that this machine has the libraries of another machine.

    Raises:
        UsageError: A library is absent or cannot be loaded.
        CapabilityError: A library is another one.
    """
    for each in _libraries([Path(each.library) for each in operators.libraries]):
        if each not in operators.libraries:
            raise CapabilityError(f"library {each.library} of this worker is not that of the client's machine")


def _libraries(paths: Sequence[Path]) -> tuple[CustomLibrary, ...]:
    found: list[CustomLibrary] = []
    if paths:
        onnxruntime()
    for path in paths:
        if not path.is_file():
            raise UsageError(f"library {path}: {'not a file' if path.exists() else 'no such file'}")
        try:
            sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
        except OSError as error:
            raise UsageError(f"library {path} cannot be read: {error.strerror}") from None
        # dlopen would look for a name without a folder in the folders of the system.
        found.append(CustomLibrary(library=str(path.absolute()), sha256=sha256))
        try:
            _load(found)
        except Exception as error:  # noqa: BLE001  the binding's error classes derive from Exception one by one
            reason = parts_of(error)[1].replace(found[-1].library, path.name)
            raise UsageError(
                f"ONNX Runtime cannot load the library {path}: {reason}",
                hint="name a library of operators for ONNX Runtime and this machine; for onnxruntime-extensions, "
                "Python prints its path: onnxruntime_extensions.get_library_path()",
            ) from None
    return tuple(found)


def _load(libraries: Sequence[CustomLibrary]) -> None:
    """Load libraries as a session does: only a session refuses two libraries with the same domain."""
    options = onnxruntime().SessionOptions()
    options.log_severity_level = 4
    register(libraries, options)
    model = onnx.parser.parse_model('<ir_version: 8, opset_import: ["": 13]> g (float x) => (float y) {y = Neg (x)}')
    onnxruntime().InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def register(libraries: Sequence[CustomLibrary], options: Any) -> None:
    """Add libraries to the options of a session."""
    for each in libraries:
        options.register_custom_ops_library(each.library)


def _stand_ins(path: Path) -> dict[Operator, onnx.FunctionProto]:
    proto = load_model(path).proto
    if not proto.functions:
        raise UsageError(
            f"stand-in {path} has no local function",
            hint="it needs one for each unknown operator, of the same name and domain: onnx.helper.make_function",
        )
    if any(map(is_external, iter_tensors(proto))):
        raise UsageError(f"stand-in {path} stores constants in a second file", hint="store them in the functions")
    found = {operator_key(each.domain, each.name): each for each in proto.functions}
    for domain, name in found:
        if onnx.defs.has(name, domain=domain):
            raise UsageError(f"stand-in {path}: {name} is an operator of ONNX, which no function may replace")
    return found


def operator_key(domain: str, name: str) -> Operator:
    """Return an operator; the default domain has two names."""
    return "" if domain in DEFAULT_DOMAINS else domain, name


def is_unknown(node: onnx.NodeProto, functions: Collection[Operator]) -> bool:
    """Return whether neither ONNX, ONNX Runtime nor a local function of the model defines the operator of a node."""
    key = operator_key(node.domain, node.op_type)
    return not (key in functions or key[0] in _OF_ONNXRUNTIME or onnx.defs.has(key[1], domain=key[0]))


def functions_of(proto: onnx.ModelProto) -> set[Operator]:
    """Return the local functions of a model."""
    return {operator_key(each.domain, each.name) for each in proto.functions}


def unknown_operator(error: Exception, version: str, proto: onnx.ModelProto) -> CapabilityError | None:
    """Return the error for a model with an operator that ONNX Runtime does not know; None for other errors.

    Args:
        error: The error of the session that could not be created.
        version: Version of ONNX Runtime.
        proto: The model.
    """
    _, text = parts_of(error)
    # Types in a local function are inferred first. The message then does not name the node in it.
    in_function = proto.functions and "type inference failed" in text and not active().libraries
    functions = functions_of(proto)
    for node in filter(lambda node: is_unknown(node, functions), all_nodes(proto)):
        # ONNX Runtime has schemas of some plugins of TensorRT, and no kernel for the CPU.
        named = (f"{node.domain}:{node.op_type}(", f"No Op registered for {node.op_type} with", f" for {node.op_type}(")
        if in_function or (_UNREGISTERED.search(text) and any(each in text for each in named)):
            label = node.name or next(filter(None, node.output), "")
            return CapabilityError(
                f"ONNX Runtime {version} does not know operator {node.domain or 'ai.onnx'}::{node.op_type} of node "
                f"'{label}'",
                hint="`--ort-custom-ops LIB` loads a library that has the operator; `--stand-in FILE.onnx` runs a "
                "local function of the same name and domain",
            )
    return None


def without_functions(model: Model) -> Transformed[tuple[InlinedFunction, ...]]:
    """Return a model without local functions if some of its operators are custom; otherwise the same model.

    ONNX Runtime 1.31.1 cannot infer the output types of such an operator inside a local function.
    """
    functions = functions_of(model.proto) if active() != _NONE else set()
    if not any(is_unknown(node, functions) for node in all_nodes(model.proto) if functions):
        return Transformed(model, ())
    return inline_called(model)


def with_stand_ins(proto: onnx.ModelProto) -> onnx.ModelProto:
    """Return a copy whose unknown operators call the stand-ins; the same model if it has no such operator.

    The functions get a domain of their own: ONNX Runtime has schemas for plugins of TensorRT, such as EfficientNMS_TRT.
    """
    stand_ins = active().stand_ins
    if not stand_ins:
        return proto
    own = functions_of(proto)
    wanted = {operator_key(node.domain, node.op_type) for node in all_nodes(proto)} - own
    if wanted.isdisjoint(stand_ins):
        return proto
    copy = copy_model(proto)
    for key, function in stand_ins.items():
        if key not in own:
            copy.functions.add().CopyFrom(function)
            copy.functions[-1].domain = _renamed(function.domain)
    replaced = stand_ins.keys() - own
    domains = sorted({_renamed(domain) for domain, _ in replaced})
    for node in all_nodes(copy):
        if operator_key(node.domain, node.op_type) in replaced:
            node.domain = _renamed(node.domain)
    importers: list[onnx.ModelProto | onnx.FunctionProto] = [copy, *copy.functions]
    for importer in importers:
        importer.opset_import.extend(onnx.helper.make_opsetid(domain, 1) for domain in domains)
    # Calls of calls may multiply: the limits of a single file apply to both files together.
    check_text(copy)
    return copy


def _renamed(domain: str) -> str:
    return f"{DOMAIN}.{operator_key(domain, '')[0]}"
