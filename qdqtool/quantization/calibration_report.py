"""Where ranges came from, and how the model was prepared for them, as data."""

from dataclasses import dataclass, field
from typing import Final

from qdqtool.quantization.report import GivenReport
from qdqtool.samples.preprocessing import Preprocessing


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialOutput:
    """The SQNR of one output of the quantized model against the float model, with and without a change.

    Attributes:
        name: Name of the output.
        without_db: SQNR without the change, in dB; None where it is undefined.
        with_db: SQNR with the change.
    """

    name: str
    without_db: float | None
    with_db: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """The effect of a change of weights on the quantized model.

    Attributes:
        samples: Number of samples.
        kept: Whether the change was kept.
        outputs: SQNR of the float outputs.
        problem: Why nothing was measured; empty if the effect was measured.
        sample_gain_db: How much the noise fell, in dB: the mean over samples and outputs; None if it was not measured.
        gain_error_db: The standard error of that mean over the samples; 0 for one sample.
    """

    samples: int
    kept: bool
    outputs: tuple[TrialOutput, ...] = ()
    problem: str = ""
    sample_gain_db: float | None = None
    gain_error_db: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodTrial:
    """The effect of calibration methods on the outputs of the quantized model.

    Attributes:
        method: The method that was chosen.
        samples: Number of samples on which outputs were compared. They did not choose the scales that they judge.
        gains_db: By method: how much closer the outputs are to the float model than with ``auto``, in dB. A method that
            is far worse is judged on only a quarter of the samples.
        errors_db: The standard error of each gain, in dB: a method is chosen only if its gain is larger than that.
    """

    method: str
    samples: int
    gains_db: dict[str, float] = field(default_factory=dict)
    errors_db: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationUsed:
    """The origin of the ranges; in weight-only modes, the origin of the data.

    Attributes:
        source: Name of the data or of the ranges file, or ``random``.
        method: Id of the calibrator. In weight-only modes: ``gptq`` if codes were chosen with data, else ``nearest``.
        samples: Number of samples that were run. In weight-only modes: number of selection samples.
        random: Whether the samples were random.
        seed: The seed of random samples.
        forced: Whether the ranges were used only because the user insisted.
        forced_for: What the ranges do not match: ``model``, ``data`` (of the measurement), ``samples`` (their number).
        given: How a range file of another tool was used; None for any other source.
        repeated: Number of samples that equal an earlier one; 0 if the samples were not read.
        held_back: In weight-only modes: number of hold-out samples, which only measure the accuracy.
        from_file: Whether ``source`` is a ranges file that `calibrate` wrote; ``samples`` were run when it was written.
        chosen: Id of the calibrator that ``auto`` chose for the whole model by its outputs. ``auto`` if it chose for
            each tensor, and empty for other methods.
        method_trial: The effect of the methods that were tried; None if none was tried.
        preprocessing: How files became samples; None if the samples were arrays.
    """

    source: str
    method: str
    samples: int
    random: bool
    seed: int | None
    forced: bool = False
    forced_for: tuple[str, ...] = ()
    given: GivenReport | None = None
    repeated: int = 0
    held_back: int = 0
    from_file: bool = False
    chosen: str = ""
    method_trial: MethodTrial | None = None
    preprocessing: Preprocessing | None = None

    @property
    def method_used(self) -> str:
        """The method that gave the ranges."""
        return self.chosen or self.method


GATE_LIMIT: Final = 1e-5
"""Largest difference of any output relative to its largest magnitude: some 80 roundings of float32."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """One place in the model that a preparation step found.

    Attributes:
        name: Name of the node or tensor.
        graph: Scope of the node or tensor; empty for the main graph.
        note: What was done there, or why nothing was done.
    """

    name: str
    graph: str
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparationReport:
    """The outcome of one preparation step.

    Attributes:
        step: Public id of the step.
        applied: Whether the step was carried out.
        sites: Places that the step changed, or would have changed.
        left: Places of the same kind that the step does not change, with the reason.
        max_difference: Largest difference of an output from the given model on calibration samples, relative to the
            largest magnitude of the output. The relative root mean square difference of a product input from the model
            before the step, if that is larger. None if there was nothing to do, or if the step is repeated from a
            ranges file: it was measured when the file was written.
        limit: The largest difference that is allowed.
        trial: The effect of the step on the quantized model; None if that was not measured.
    """

    step: str
    applied: bool
    sites: tuple[Site, ...]
    left: tuple[Site, ...] = ()
    max_difference: float | None = None
    limit: float = GATE_LIMIT
    trial: Trial | None = None
