"""Where ranges came from, and how the model was prepared for them, as data."""

from dataclasses import dataclass, field
from typing import Final

from qdqtool.quantization.report import GivenReport
from qdqtool.samples.preprocessing import Preprocessing


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialOutput:
    """The SQNR of one output of the quantized model, with a change and without, against the float model.

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
        problem: Why nothing was measured; empty where it was.
        sample_gain_db: Fall of the noise in dB, the mean of samples and outputs; None where it was not measured.
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
    """What the methods do to the outputs of the quantized model.

    Attributes:
        method: The method that was chosen.
        samples: Number of samples on which outputs were compared. None of them chose the scales that it judged.
        gains_db: By how much the outputs are nearer to those of the float model than with ``auto``, in dB, by method.
            Only a quarter of the samples judge a method that is far worse on them.
        errors_db: The standard error of each gain, in dB: a method is taken where it gains more than that.
    """

    method: str
    samples: int
    gains_db: dict[str, float] = field(default_factory=dict)
    errors_db: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationUsed:
    """The origin of the ranges; in weight-only modes, of the data.

    Attributes:
        source: The data, ``random``, or the ranges file.
        method: Id of the calibrator. In weight-only modes ``gptq`` where codes were chosen with data, else ``nearest``.
        samples: How many samples were run. In weight-only modes, how many may have chosen something.
        random: Whether they were random.
        seed: The seed of random samples.
        forced: Whether the ranges were used only because the user insisted.
        forced_for: What they do not match: ``model``, ``data`` (that of the measurement), ``samples`` (their number).
        given: The use that was made of a range file of another tool; None for any other source.
        repeated: How many samples were equal to an earlier one; 0 where the samples were not read.
        held_back: In weight-only modes, how many samples of the source chose nothing and only measured.
        from_file: Whether ``source`` is a ranges file that `calibrate` wrote, and ``samples`` were run then.
        chosen: Id of the calibrator that ``auto`` chose for the whole model by its outputs; ``auto`` where it chose for
            each tensor by itself, and empty for other methods.
        method_trial: The effect of the methods that were tried; None where none was.
        preprocessing: How files became samples; None for samples that were arrays.
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
    """One place that a step found.

    Attributes:
        name: The node or tensor.
        graph: Its scope; empty for the main graph.
        note: What was done there, or why nothing was.
    """

    name: str
    graph: str
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparationReport:
    """The outcome of one step.

    Attributes:
        step: Its public id.
        applied: Whether it was made.
        sites: Places that it changed, or would have changed.
        left: Places of the same kind that it does not change, with the reason.
        max_difference: Largest difference of an output from the given model on calibration samples, relative to the
            output's largest magnitude; or that of what a product reads from the model before the step, root mean
            square over root mean square, if that is larger. None where there was nothing to do, or where the step is
            repeated from a ranges file: it was measured when that was written.
        limit: The largest difference that is allowed.
        trial: What the step did to the quantized model; None where that was not measured.
    """

    step: str
    applied: bool
    sites: tuple[Site, ...]
    left: tuple[Site, ...] = ()
    max_difference: float | None = None
    limit: float = GATE_LIMIT
    trial: Trial | None = None
