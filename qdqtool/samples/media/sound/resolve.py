"""Complete the preprocessing options of sound from the shape of the model's input; never guess missing options."""

from collections.abc import Sequence
from dataclasses import dataclass

from qdqtool.errors import UsageError
from qdqtool.samples.media.files import SCRIPT, only_input, settled_length
from qdqtool.samples.media_options import SoundOptions
from qdqtool.samples.preprocessing import SoundPreprocessing
from qdqtool.samples.signature import Dim, InputSpec, needed

MOST_CHANNELS = 8
"""A dimension larger than this is time, not channels."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SoundInput:
    """An input that accepts sound.

    Attributes:
        spec: The input.
        batch: Windows in one run, 1 if the batch is dynamic; None if the input has no batch dimension.
        channels: Number of channels.
        channel_axis: Axis of the channels, not counting the batch: 0 for [C, N], 1 for [N, C]; None for [N].
        length: Number of values of a window along time; None if the model allows any number.
    """

    spec: InputSpec
    batch: int | None
    channels: int
    channel_axis: int | None
    length: int | None


def sound_input(specs: Sequence[InputSpec], source: str) -> SoundInput:
    """Return the only input of a model, if sound can fill it: [N], [B, N], [B, C, N] or [B, N, C].

    Raises:
        UsageError: The model has no input or several inputs, or the input does not have the shape or type of sound.
    """
    single = next((spec.name for spec in needed(specs) if spec.shape in {(), (1,)}), None)
    stored = f"`--input-values {single}:16000` stores one as a constant; " if single is not None else ""
    spec = only_input(specs, f"{source} holds sound, which fills", stored)
    shape = spec.shape
    if spec.dtype.kind != "f" or shape is None or len(shape) not in {1, 2, 3}:
        raise UsageError(
            f"{source} holds sound, and the model takes {spec}; an input for sound has a type of floats and the shape "
            "[N], [B, N], [B, C, N] or [B, N, C]",
            hint=SCRIPT,
        )
    inner = shape[1:] or shape
    axis = _channel_axis(spec, inner) if len(inner) == 2 else None
    length, channels = (inner[0], 1) if axis is None else (inner[1 - axis], inner[axis])
    assert isinstance(channels, int)
    return SoundInput(
        spec=spec,
        batch=spec.batch if len(shape) > 1 else None,
        channels=channels,
        channel_axis=axis,
        length=length if isinstance(length, int) else None,
    )


def _channel_axis(spec: InputSpec, inner: Sequence[Dim]) -> int:
    """Return the axis (0 or 1) of the channels: the inner dimension that is static and small."""
    small = [axis for axis, dim in enumerate(inner) if isinstance(dim, int) and 1 <= dim <= MOST_CHANNELS]
    if len(small) != 1:
        problem = "both could hold channels" if small else f"neither is from 1 to {MOST_CHANNELS}"
        raise UsageError(
            f"the channel axis of input {spec} is not known: of its last two dimensions, {problem}", hint=SCRIPT
        )
    return small[0]


def resolve(options: SoundOptions, taken: SoundInput, source: str) -> SoundPreprocessing:
    """Return the complete preprocessing of sound for an input.

    Raises:
        UsageError: The rate is missing, the length is unknown, or the length contradicts the model.
    """
    if options.rate is None:
        raise UsageError(
            f"{source} holds sound, but the sample rate of input '{taken.spec.name}' is not known: a model does not "
            "say how it was trained",
            hint="give the rate in Hz: `--sound-rate 16000` (`qdqtool explain data`)",
        )
    length = _length(options, taken)
    return SoundPreprocessing(
        rate=options.rate,
        channels=taken.channels,
        length=length,
        hop=options.hop or length,
        sample_range=options.sample_range or "-1..1",
    )


def _length(options: SoundOptions, taken: SoundInput) -> int:
    unknown = UsageError(
        f"the length of the sound is not known: the model takes {taken.spec}",
        hint="give the number of values of a window: `--sound-length 16000`",
    )
    found = settled_length("--sound-length", options.length, taken.length, str(taken.spec), unknown)
    if found < 1:
        raise UsageError(f"the model takes {taken.spec}, which holds no sound", hint=SCRIPT)
    return found
