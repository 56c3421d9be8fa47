"""What was found of one network."""

import json
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(slots=True)
class Left:
    """Nodes of one operator that stay float, or run so, for one reason."""

    op_type: str
    reason: str
    count: int


@dataclass(slots=True)
class Mode:
    """One mode.

    Attributes:
        failed: The command that failed, with its message; empty where all ran.
        nothing: What was said where the network has nothing for this mode.
        pairs: Activations that were given a pair.
        weights: Weights that were quantized.
        equalized: Layers whose channels were equalised.
        left: Why nodes with heavy arithmetic stay float.
        unexplained: Such nodes of which the report says nothing.
        findings: Findings of ``validate``, as ``2 QP101``.
        advice: What ``validate`` says would be faster.
        check: Failures of ``check`` on samples that calibration has not seen; empty where it passed.
        sqnr_db: Of the worst output on these samples.
        refusal: Why TensorRT for RTX makes no engine; empty where it does.
        planned: Nodes between Q/DQ.
        achieved: Those of them that run in the planned type.
        fallbacks: Why the others do not.
        stripped_db: SQNR of the worst output of the stripped model against the float model; of the int8 mode alone.
    """

    failed: str = ""
    nothing: str = ""
    pairs: int = 0
    weights: int = 0
    equalized: int = 0
    left: list[Left] = field(default_factory=list)
    unexplained: int = 0
    findings: list[str] = field(default_factory=list)
    advice: list[Left] = field(default_factory=list)
    check: str = ""
    sqnr_db: float | None = None
    refusal: str = ""
    planned: int = 0
    achieved: int = 0
    fallbacks: list[Left] = field(default_factory=list)
    stripped_db: float | None = None


@dataclass(slots=True)
class Exported:
    """The int8 mode on the file of another exporter, or of another quantizer.

    Attributes:
        pairs: As of a mode.
        weights: The same.
        equalized: The same.
        sqnr_db: The same.
        failed: Why there is none.
        nodes: Of another quantizer: how many of the nodes with heavy arithmetic that ours quantizes it does too.
        error_db: Of another quantizer: standard error of the difference between its SQNR and ours.
    """

    pairs: int = 0
    weights: int = 0
    equalized: int = 0
    sqnr_db: float | None = None
    failed: str = ""
    nodes: int = 0
    error_db: float | None = None


@dataclass(slots=True)
class Row:
    """One network.

    Attributes:
        name: Its name.
        exporter: Whose file was taken; empty where no exporter could write it.
        nodes: Nodes with heavy arithmetic.
        quantized: Those of them that the int8 mode quantizes.
        float_refusal: Why TensorRT for RTX makes no engine of the float model; empty where it does.
        modes: By name.
        ort: ONNX Runtime's int8 on the same nodes.
        others: The int8 mode by other exporters.
        failed_exports: Messages of exporters that could not write it.
        seconds: How long all of it took.
        crash: The last words of a process that ended before it was done.
    """

    name: str
    exporter: str = ""
    nodes: int = 0
    quantized: int = 0
    float_refusal: str = ""
    modes: dict[str, Mode] = field(default_factory=dict)
    ort: Exported = field(default_factory=Exported)
    others: dict[str, Exported] = field(default_factory=dict)
    failed_exports: dict[str, str] = field(default_factory=dict)
    seconds: float = 0
    crash: str = ""

    def to_json(self) -> str:
        """Return it as JSON; infinite SQNR is the text ``Infinity``, as Python writes it."""
        return json.dumps(asdict(self), indent=1)


def from_json(text: str) -> Row:
    """Return a row that was written by :meth:`Row.to_json`."""
    read: dict[str, Any] = json.loads(text)
    read["modes"] = {name: _mode(mode) for name, mode in read["modes"].items()}
    read["ort"] = Exported(**read["ort"])
    read["others"] = {name: Exported(**each) for name, each in read["others"].items()}
    return Row(**read)


def _mode(read: dict[str, Any]) -> Mode:
    lefts = {key: [Left(**each) for each in read.get(key, ())] for key in ("left", "fallbacks", "advice")}
    return Mode(**{**read, **lefts})
