"""Who quantizes, and with which command. A command is all that is known of a contestant."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.comparison.subjects import Subject, has_matmul_weights
from qdqtool import calibrators

CHILDREN = Path(__file__).parent / "children"
DEFAULT, MAX, HISTOGRAM, FP8 = "int8 default", "int8 max", "int8 histogram", "fp8"
INT4_128, INT4_32, WEIGHTS, NVFP4 = "int4 block 128", "int4 block 32", "int8 weights", "nvfp4"
WEIGHT_ONLY = (INT4_128, INT4_32, WEIGHTS, NVFP4)
NO_DATA = "no data"
OURS, ORT, MODEL_OPTIMIZER = "qdqtool", "ORT", "Model Optimizer"

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
        sample_limit: More samples than so many are not given.
    """

    tool: str
    group: str
    method: str
    command: Callable[[Subject, int, Path], list[str]]
    sample_limit: int | None = None

    @property
    def label(self) -> str:
        """Unique among the contestants."""
        return f"{self.tool} {self.group}, {self.method}"

    def samples(self, subject: Subject) -> int:
        """How many samples it gets."""
        return min(subject.samples, self.sample_limit or subject.samples)


def ours() -> list[Contestant]:
    """Every mode, and for int8 every method that the tool names."""
    methods = [name for name in calibrators.names() if name not in ("max", calibrators.DEFAULT)]
    int4 = ("--quantize-mode", "int4", "--block-size")
    return [
        _ours(DEFAULT, "default"),
        _ours(MAX, "max", "--calibration-method", "max"),
        *(_ours(HISTOGRAM, method, "--calibration-method", method) for method in methods),
        _ours(FP8, "default", "--quantize-mode", "fp8"),
        _ours(INT4_128, "default", *int4, "128"),
        _ours(INT4_128, NO_DATA, *int4, "128", data=False),
        _ours(INT4_32, "default", *int4, "32"),
        _ours(INT4_32, NO_DATA, *int4, "32", data=False),
        _ours(WEIGHTS, NO_DATA, "--quantize-mode", "int8-weight-only", data=False),
        _ours(NVFP4, "default", "--quantize-mode", "nvfp4"),
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
        _model_optimizer(python, INT4_128, "int4", "rtn_dq", "128"),
        _model_optimizer(python, INT4_128, "int4", "awq_clip", "128"),
        _model_optimizer(python, INT4_32, "int4", "rtn_dq", "32"),
    ]


def entered(contestant: Contestant, subject: Subject) -> bool:
    """Whether a contestant runs on a subject.

    Weight-only modes need a MatMul with a weight. Where ``subject.few``, one method of each mode is enough, and of the
    peers those modes that bars speak of.
    """
    if contestant.group in WEIGHT_ONLY and not has_matmul_weights(subject.path):
        return False
    if not subject.few:
        return True
    if contestant.tool == OURS:
        return contestant.group in (DEFAULT, MAX, FP8, INT4_128, INT4_32) and contestant.method != NO_DATA
    return contestant.group in (MAX, INT4_128, INT4_32) and contestant.method != "awq_clip"


def is_slow(contestant: Contestant) -> bool:
    """Whether a quick run does without it: all histogram methods but the default, and peers that take minutes."""
    return contestant.group == HISTOGRAM or (contestant.tool != OURS and contestant.sample_limit is not None)


def is_built(contestant: Contestant) -> bool:
    """Whether TensorRT is asked about its results; methods that only change scales build as the default does."""
    return contestant.group != HISTOGRAM and contestant.method not in (NO_DATA, "awq_clip")


def _ours(group: str, method: str, *options: str, data: bool = True) -> Contestant:
    def command(subject: Subject, samples: int, output: Path) -> list[str]:
        words = [sys.executable, "-m", "qdqtool", "quantize", str(subject.path), "-o", str(output), *options]
        if data:
            words += ["--calib-data", str(subject.calibration), "--samples", str(samples)]
        return words

    return Contestant(OURS, group, method, command)


def _ort_static(group: str, method: str, kind: str = "int8", limit: int | None = None) -> Contestant:
    def command(subject: Subject, samples: int, output: Path) -> list[str]:
        words = (subject.path, subject.calibration, samples, output, method, kind)
        return [sys.executable, str(CHILDREN / "ort_static.py"), *map(str, words)]

    return Contestant(ORT, group, method, command, limit)


def _ort_nbits(group: str, block_size: int) -> Contestant:
    def command(subject: Subject, _samples: int, output: Path) -> list[str]:
        return [sys.executable, str(CHILDREN / "ort_nbits.py"), str(subject.path), str(output), str(block_size)]

    return Contestant(ORT, group, "MatMul nbits", command)


def _model_optimizer(
    python: str, group: str, mode: str, method: str, *rest: str, limit: int | None = None
) -> Contestant:
    def command(subject: Subject, samples: int, output: Path) -> list[str]:
        words = (subject.path, subject.calibration, samples, output, mode, method, *rest)
        return [python, str(CHILDREN / "model_optimizer.py"), *map(str, words)]

    return Contestant(MODEL_OPTIMIZER, group, method, command, limit)


def plain(subject: Subject, samples: int) -> list[str]:
    """The command of the baseline: nothing but inference."""
    words = (subject.path, subject.calibration, samples)
    return [sys.executable, str(CHILDREN / "plain.py"), *map(str, words)]
