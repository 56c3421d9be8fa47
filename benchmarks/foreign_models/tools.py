"""The tools: what their environments need. Read without importing a maker, which needs its tool."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool.

    Attributes:
        name: Of its module in ``makers``, and of its environment.
        title: What the page calls it.
        requirements: What pip installs. Torch comes from the environment that writes the float models.
        versions: The packages whose versions the page names.
    """

    name: str
    title: str
    requirements: tuple[str, ...]
    versions: tuple[str, ...]


TOOLS = (
    Tool(
        "modelopt",
        "Model Optimizer",
        ("nvidia-modelopt[onnx]==0.47.0", "onnxscript", "requests"),
        ("nvidia-modelopt", "torch", "onnxruntime-gpu"),
    ),
    Tool("brevitas", "Brevitas", ("brevitas", "onnx", "onnxoptimizer", "onnxscript"), ("brevitas", "torch")),
    Tool("torchao", "torch and torchao", ("torchao", "onnx", "onnxscript"), ("torch", "torchao")),
    Tool(
        "keras",
        "Keras",
        ("tensorflow-cpu", "tf2onnx", "tensorflow-model-optimization", "tf_keras"),
        ("tensorflow", "tensorflow-model-optimization", "tf2onnx"),
    ),
    Tool("aimet", "AIMET", ("aimet-onnx",), ("aimet-onnx",)),
    Tool("quark", "AMD Quark, ONNX", ("amd-quark", "onnxruntime"), ("amd-quark", "onnxruntime")),
    Tool("quark_torch", "AMD Quark, torch", ("amd-quark", "onnxruntime"), ("amd-quark", "torch")),
    Tool(
        "neural_compressor",
        "Neural Compressor",
        ("onnx-neural-compressor", "prettytable", "scipy"),
        ("onnx-neural-compressor", "onnxruntime"),
    ),
    Tool("nncf", "NNCF", ("nncf", "onnx", "onnxruntime", "torchao"), ("nncf", "onnxruntime", "torch")),
    Tool(
        "model_compression_toolkit",
        "Model Compression Toolkit",
        ("model-compression-toolkit", "mct-quantizers", "onnx", "onnxruntime"),
        ("model-compression-toolkit", "torch"),
    ),
    Tool("onnxruntime", "ONNX Runtime", ("onnxruntime", "onnx", "sympy"), ("onnxruntime",)),
)
"""All tools. Each has an environment of its own, so that it can be made again alone."""


def titled(name: str) -> str:
    """Return what the page calls the tool of that module."""
    return next(tool.title for tool in TOOLS if tool.name == name)
