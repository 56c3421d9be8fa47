"""What is measured: command lines whose model or data has a size, on files that are made when they are needed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import onnx

from benchmarks.scaling import models
from benchmarks.validate import chain as quantized_chain
from qdqtool.jobs.insert import insert_plan

Words = Callable[["Files", int], list[str]]
"""The words of a command line, given where files are and a size."""

NODES = (100, 1_000, 10_000, 50_000)
FEWER_NODES = (100, 300, 1_000, 3_000)
ELEMENTS = tuple(1 << power for power in (20, 22, 24, 26))
DEPTHS = (3, 8, 16, 30)
"""protobuf reads messages that are nested 100 deep: three for each If."""
SAMPLES = (64, 256, 1_024, 4_096)


@dataclass(frozen=True, slots=True)
class Course:
    """One command, and what grows.

    Attributes:
        axis: What grows, in words.
        command: What runs, in words.
        sizes: Of the model or data.
        words: Gives the command line.
    """

    axis: str
    command: str
    sizes: Sequence[int]
    words: Words

    @property
    def name(self) -> str:
        """Unique among the courses."""
        return f"{self.command}: {self.axis}"


@dataclass(frozen=True, slots=True)
class Kind:
    """A family of models.

    Attributes:
        name: Of its files.
        make: Makes the one of a size.
        plan: Where its pairs go, a plan file.
        quantized: Makes the one of a size with pairs of a scale; None: ``insert`` does.
    """

    name: str
    make: Callable[[int], onnx.ModelProto]
    plan: str
    quantized: Callable[[int, float], onnx.ModelProto] | None = None


CHAIN = Kind("chain", models.chain, models.CHAIN_PLAN, quantized_chain)
NESTED = Kind("nested", models.nested, models.BODY_PLAN)
PRODUCT = Kind("product", models.product, models.PRODUCT_PLAN)


@dataclass(frozen=True, slots=True)
class Files:
    """Files that are made once.

    Attributes:
        folder: Where.
    """

    folder: Path

    def model(self, kind: Kind, size: int) -> str:
        """The float model of a size."""
        path = self.folder / f"{kind.name}.{size}.onnx"
        if not path.exists():
            onnx.save(kind.make(size), path)
        return str(path)

    def plan(self, kind: Kind, scale: str = "0.1") -> str:
        """The plan of a kind; another scale gives another plan."""
        path = self.folder / f"{kind.name}.{scale}.toml"
        path.write_text(kind.plan.replace("0.1", scale), encoding="utf-8")
        return str(path)

    def quantized(self, kind: Kind, size: int, scale: str = "0.1") -> str:
        """The model of a size with its pairs."""
        path = self.folder / f"{kind.name}.{size}.{scale}.quantized.onnx"
        if not path.exists() and kind.quantized is not None:
            onnx.save(kind.quantized(size, float(scale)), path)
        elif not path.exists():
            insert_plan(Path(self.model(kind, size)), Path(self.plan(kind, scale)), path)
        return str(path)

    def samples(self, count: int) -> str:
        """Calibration data of a chain."""
        path = self.folder / f"{count}.npz"
        if not path.exists():
            models.samples(count, (models.CHANNELS, 8, 8), path)
        return str(path)

    @property
    def output(self) -> str:
        """A file to write."""
        return str(self.folder / "output.onnx")


def courses() -> list[Course]:
    """Everything that is measured."""
    return [
        *_of("nodes", CHAIN, NODES),
        Course("nodes", "quantize", FEWER_NODES, lambda files, size: _quantize(files, size, 16)),
        Course("samples", "quantize", SAMPLES, lambda files, size: _quantize(files, 20, size)),
        *_of("elements of a weight", PRODUCT, ELEMENTS),
        Course("elements of a weight", "quantize int8-weight-only", ELEMENTS, _weight_only),
        *_of("depth of If", NESTED, DEPTHS),
    ]


def _of(axis: str, kind: Kind, sizes: Sequence[int]) -> list[Course]:
    """The commands that read a model and no data."""
    commands: dict[str, Words] = {
        "validate": lambda files, size: ["validate", files.quantized(kind, size)],
        "inspect": lambda files, size: ["inspect", files.quantized(kind, size)],
        "insert": lambda files, size: [
            "insert", files.model(kind, size), "--plan", files.plan(kind), "-o", files.output
        ],
        "strip": lambda files, size: ["strip", files.quantized(kind, size), "-o", files.output],
        "diff": lambda files, size: ["diff", files.quantized(kind, size), files.quantized(kind, size, "0.2")],
    }  # fmt: skip
    return [Course(axis, name, sizes, words) for name, words in commands.items()]


def _quantize(files: Files, nodes: int, count: int) -> list[str]:
    words = ["quantize", files.model(CHAIN, nodes), "--calib-data", files.samples(count), "-o", files.output]
    return [*words, "--calibration-method", "max"]


def _weight_only(files: Files, size: int) -> list[str]:
    return ["quantize", files.model(PRODUCT, size), "--quantize-mode", "int8-weight-only", "-o", files.output]
