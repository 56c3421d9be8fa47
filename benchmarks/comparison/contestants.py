"""Who quantizes, and with which command. A command is all that is known of a contestant."""

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import onnx

from benchmarks.comparison import costs
from benchmarks.comparison.subjects import Subject, has_matmul_weights
from qdqtool.quantization.ranges import calibrators

CHILDREN = Path(__file__).parent / "children"
DEFAULT, MAX, HISTOGRAM, FP8 = "int8 default", "int8 max", "int8 histogram", "fp8"
INT4_128, INT4_32, WEIGHTS, NVFP4 = "int4 block 128", "int4 block 32", "int8 weights", "nvfp4"
HALF = "fp16"
GROUPS = (DEFAULT, MAX, HISTOGRAM, FP8, INT4_128, INT4_32, WEIGHTS, NVFP4, HALF)
WEIGHT_ONLY = (INT4_128, INT4_32, WEIGHTS, NVFP4)
DEFAULT_METHOD, NO_DATA = "default", "no data"
OURS, ORT, MODEL_OPTIMIZER = "qdqtool", "ORT", "Model Optimizer"

ORT_LIMIT = 300
"""Seconds that one quantization of a network may take."""

KEEPS_EVERYTHING = 32
"""Samples for a method of a peer that keeps all activations in memory until the end."""


@dataclass(frozen=True, slots=True)
class Contestant:
    """One tool with one set of options.

    Attributes:
        tool: Whose it is.
        group: Contestants of one group do the same job.
        method: How ranges or weights are found, in the tool's words.
        command: The words to run, given the subject, the number of samples and the file to write.
        sample_limit: More samples than so many are not given on a heavy subject.
        follows: Label of the contestant whose nodes it quantizes, no others; empty: it chooses them itself.
    """

    tool: str
    group: str
    method: str
    command: Callable[[Subject, int, Path], list[str]]
    sample_limit: int | None = None
    follows: str = ""

    @property
    def label(self) -> str:
        """Unique among the contestants."""
        return f"{self.tool} {self.group}, {self.method}"

    def samples(self, subject: Subject) -> int:
        """How many samples it gets: all there are, unless memory forbids it."""
        return min(subject.samples, self.sample_limit or subject.samples) if subject.heavy else subject.samples


def ours() -> list[Contestant]:
    """Every mode, and for int8 every method that the tool names."""
    methods = [name for name in calibrators.names() if name not in ("max", calibrators.DEFAULT)]
    int4 = ("--quantize-mode", "int4", "--block-size")
    return [
        _ours(DEFAULT, DEFAULT_METHOD),
        _ours(MAX, "max", "--calibration-method", "max"),
        *(_ours(HISTOGRAM, method, "--calibration-method", method) for method in methods),
        _ours(FP8, DEFAULT_METHOD, "--quantize-mode", "fp8"),
        _ours(INT4_128, DEFAULT_METHOD, *int4, "128"),
        _ours(INT4_128, NO_DATA, *int4, "128", data=False),
        _ours(INT4_32, DEFAULT_METHOD, *int4, "32"),
        _ours(INT4_32, NO_DATA, *int4, "32", data=False),
        _ours(WEIGHTS, NO_DATA, "--quantize-mode", "int8-weight-only", data=False),
        _ours(NVFP4, DEFAULT_METHOD, "--quantize-mode", "nvfp4"),
        _ours(HALF, NO_DATA, "--to", "fp16", data=False, command="cast"),
        _ours(HALF, DEFAULT_METHOD, "--to", "fp16", command="cast"),
    ]


def onnx_runtime() -> list[Contestant]:
    """ONNX Runtime's quantizers in the environment that runs the benchmark."""
    return [
        _ort_static(MAX, "max"),
        _ort_static(HISTOGRAM, "percentile", limit=KEEPS_EVERYTHING),
        _ort_static(HISTOGRAM, "entropy", limit=KEEPS_EVERYTHING),
        _ort_static(FP8, "distribution", "fp8", limit=KEEPS_EVERYTHING),
        _ort_nbits(INT4_128, 128),
        _ort_nbits(INT4_32, 32),
    ]


def model_optimizer(python: str) -> list[Contestant]:
    """Model Optimizer in the environment of that interpreter."""
    return [
        _model_optimizer(python, MAX, "int8", "max"),
        _model_optimizer(python, HISTOGRAM, "int8", "entropy", limit=KEEPS_EVERYTHING),
        _model_optimizer(python, FP8, "fp8", "max"),
        _model_optimizer(python, INT4_128, "int4", "rtn_dq", "--block-size", "128"),
        _model_optimizer(python, INT4_128, "int4", "awq_clip", "--block-size", "128"),
        _model_optimizer(python, INT4_32, "int4", "rtn_dq", "--block-size", "32"),
        _model_optimizer(python, HALF, "fp16", NO_DATA),
        _model_optimizer(python, HALF, "fp16", DEFAULT_METHOD, limit=KEEPS_EVERYTHING),
    ]


def followers(peers: Iterable[Contestant]) -> list[Contestant]:
    """Our defaults on the very nodes that a peer quantizes with max: with the same coverage SQNR can be compared."""
    options = {MAX: (DEFAULT, ()), FP8: (FP8, ("--quantize-mode", "fp8"))}
    return [
        replace(_ours(group, nodes_of(peer.tool), *words), follows=peer.label)
        for peer in peers
        if peer.group in options
        for group, words in [options[peer.group]]
    ]


def nodes_of(tool: str) -> str:
    """The method of a contestant that follows that tool."""
    return f"{DEFAULT_METHOD} on the nodes of {tool}"


def entered(contestant: Contestant, subject: Subject) -> bool:
    """Whether a contestant runs on a subject.

    Weight-only modes need a MatMul with a weight. Where ``subject.few``, they are left out, as are methods of ours but
    the default and max, and ONNX Runtime's that would keep all activations of a large model.
    """
    if contestant.group in WEIGHT_ONLY:
        return not subject.few and has_matmul_weights(subject.path)
    if not subject.few:
        return True
    if contestant.tool == OURS:
        return contestant.group != HISTOGRAM
    return contestant.tool == MODEL_OPTIMIZER or contestant.sample_limit is None


def is_slow(contestant: Contestant) -> bool:
    """Whether a quick run does without it: all histogram methods but the default, and peers that take minutes."""
    return contestant.group == HISTOGRAM or (contestant.tool != OURS and contestant.sample_limit is not None)


def is_built(contestant: Contestant) -> bool:
    """Whether TensorRT is asked about its results; methods that only change scales build as the default does."""
    return contestant.group == HALF or (
        contestant.group != HISTOGRAM and contestant.method not in (NO_DATA, "awq_clip")
    )


def _ours(group: str, method: str, *options: str, data: bool = True, command: str = "quantize") -> Contestant:
    def words_of(subject: Subject, samples: int, output: Path) -> list[str]:
        words = [sys.executable, "-m", "qdqtool", command, str(subject.path), "-o", str(output), *options]
        if data:
            words += ["--calib-data", str(subject.calibration), "--samples", str(samples)]
        # Without data, nothing tells cast how large an open dimension is.
        return [*words, *(_shapes(subject) if data or command == "quantize" else _shapes_of_data(subject))]

    return Contestant(OURS, group, method, words_of)


def _ort_static(group: str, method: str, kind: str = "int8", limit: int | None = None) -> Contestant:
    def command(subject: Subject, samples: int, output: Path) -> list[str]:
        words = (subject.path, subject.calibration, samples, output, method, "--type", kind)
        return [sys.executable, str(CHILDREN / "ort_static.py"), *map(str, words), *_shapes(subject)]

    return Contestant(ORT, group, method, command, limit)


def quantize_with_ort(model: Path, data: Path, output: Path, nodes: Path) -> str:
    """Quantize the nodes that a JSON file names with ONNX Runtime's static int8; return why it failed, or nothing."""
    with np.load(data) as stored:
        samples = len(stored[stored.files[0]])
    words = (CHILDREN / "ort_static.py", model, data, samples, output, "max", "--nodes", nodes)
    ended = costs.run([sys.executable, *map(str, words)], ORT_LIMIT)
    return ended.complaint if ended.code or not output.exists() else ""


def _ort_nbits(group: str, block_size: int) -> Contestant:
    def command(subject: Subject, _samples: int, output: Path) -> list[str]:
        words = (subject.path, output, block_size)
        return [sys.executable, str(CHILDREN / "ort_nbits.py"), *map(str, words), *_shapes(subject)]

    return Contestant(ORT, group, "MatMul nbits", command)


def _model_optimizer(
    python: str, group: str, mode: str, method: str, *rest: str, limit: int | None = None
) -> Contestant:
    def command(subject: Subject, samples: int, output: Path) -> list[str]:
        words = (subject.path, subject.calibration, samples, output, mode, method, *rest)
        return [python, str(CHILDREN / "model_optimizer.py"), *map(str, words), *_shapes(subject)]

    return Contestant(MODEL_OPTIMIZER, group, method, command, limit)


def _shapes(subject: Subject) -> list[str]:
    return ["--input-shapes", subject.input_shapes] if subject.input_shapes else []


def _shapes_of_data(subject: Subject) -> list[str]:
    graph = onnx.load(subject.path, load_external_data=False).graph
    ranks = {value.name: len(value.type.tensor_type.shape.dim) for value in graph.input}
    with np.load(subject.calibration) as stored:
        shapes = {name: stored[name].shape for name in stored.files if ranks.get(name)}
    shown = {name: [1, *shape[1:]] if len(shape) == ranks[name] else shape[1:] for name, shape in shapes.items()}
    return ["--input-shapes", ",".join(f"{name}:{'x'.join(map(str, shape))}" for name, shape in shown.items())]


def plain(subject: Subject, samples: int) -> list[str]:
    """The command of the baseline: nothing but inference."""
    words = (subject.path, subject.calibration, samples)
    return [sys.executable, str(CHILDREN / "plain.py"), *map(str, words)]
