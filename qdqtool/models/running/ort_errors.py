"""Translate ONNX Runtime's errors: one line that names the node, no source positions, and the right error class."""

import re
from typing import Any

from qdqtool.errors import CapabilityError, ModelError, QdqError, UsageError

INSTALL = "`pip install onnxruntime`; or onnxruntime-gpu, where programs on a GPU share this environment"

# Errors begin with "[ONNXRuntimeError] : 1 : FAIL : ", which may occur again inside the text.
_STATUS = re.compile(r"^\[ONNXRuntimeError\] : \d+ : (?P<code>\w+) : (?P<text>.*)$", re.DOTALL)
# Source positions look like "/onnxruntime_src/.../graph.cc:1234 onnxruntime::Graph::f(...) ".
# Names of models are in these texts, so every repetition is bounded.
_SOURCE = re.compile(r"(?:/\S{1,200}?|\b\w{1,80})\.(?:cc|h):\d{1,6} [^\n]{0,2000}?\) (?=[\w\[(])")
_NESTED = re.compile(r"\[ONNXRuntimeError\] : \d+ : \w+ : ")
_FAILED_NODE = re.compile(
    r"Non-zero status code returned while running (?P<op>\S+) node\. Name:'(?P<name>[^']*)' Status Message: "
    r"(?P<why>(?:(?!Non-zero status code).)*)$",
    re.DOTALL,
)
_NO_KERNEL = re.compile(
    r"Could not find an implementation for (?P<op>\S+?)\((?P<version>\d+)\) node with name '(?P<name>.*)'", re.DOTALL
)
_UNSUPPORTED = (
    re.compile(r"Current official support for domain (?P<domain>\S+) is till opset (?P<last>\d+)"),
    re.compile(r"Unsupported model IR version: \d+, max supported IR version: \d+"),
)
# ONNX Runtime's Loop stacks an output of its body and fails if the shape changes between iterations: "Inconsistent
# shape in loop output for output. Expected:{1} Got:{2}" (1.31.1).
_LOOP_SHAPES = "Inconsistent shape"


class RunError(UsageError):
    """The model failed while it ran, perhaps only on these inputs."""


class LoopShapeError(RunError):
    """An output of a loop has a different shape than in the previous iteration."""


def onnxruntime() -> Any:
    """Return the package ONNX Runtime.

    Raises:
        CapabilityError: It is not installed.
    """
    try:
        import onnxruntime as found
    except ImportError as error:
        raise CapabilityError(
            "onnxruntime is not installed; it is the reference that models are checked against", hint=INSTALL
        ) from error
    return found


def session_error(error: Exception, version: str) -> QdqError:
    """Translate the error of a session that could not be created.

    Returns:
        A CapabilityError if ONNX Runtime does not support something, a ModelError if it calls the model invalid.
    """
    code, text = parts_of(error)
    kernel = _NO_KERNEL.search(text)
    if kernel:
        return CapabilityError(
            f"ONNX Runtime {version} on CPU has no kernel for {kernel['op']} (opset {kernel['version']}) with the "
            f"types of node '{kernel['name']}'",
            hint="convert the model to types that ONNX Runtime has kernels for, such as float32",
        )
    opset = _UNSUPPORTED[0].search(text)
    if opset:
        name = "the default domain" if opset["domain"] == "ai.onnx" else opset["domain"]
        return CapabilityError(
            f"the model's opset is too new: ONNX Runtime {version} knows {name} up to {opset['last']}"
        )
    if code == "NOT_IMPLEMENTED" or any(pattern.search(text) for pattern in _UNSUPPORTED):
        return CapabilityError(f"ONNX Runtime {version} cannot run the model: {text}")
    return ModelError(
        f"ONNX Runtime {version} refuses the model: {text}",
        hint="`qdqtool validate --target ort-cpu MODEL` lists what is wrong with its quantization",
    )


def run_error(error: Exception) -> RunError:
    """Translate the error of a run."""
    _, text = parts_of(error)
    kind = LoopShapeError if _LOOP_SHAPES in text else RunError
    node = _FAILED_NODE.search(text)
    if node:
        return kind(f"{node['op']} node '{node['name']}' failed in ONNX Runtime: {_one_line(node['why'])}")
    return kind(f"the model failed in ONNX Runtime: {text}")


def parts_of(error: Exception) -> tuple[str, str]:
    """Return the status code and the text of an error, as one line without source positions."""
    match = _STATUS.match(str(error))
    return (match["code"], _one_line(match["text"])) if match else ("", _one_line(str(error)))


def _one_line(text: str) -> str:
    return " ".join(_NESTED.sub("", _SOURCE.sub("", text)).split())
