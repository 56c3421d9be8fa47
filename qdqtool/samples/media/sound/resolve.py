"""Complete the requested preprocessing of sound with what the input of a model says, and refuse to guess the rest."""

from collections.abc import Sequence
from dataclasses import dataclass

from qdqtool.errors import UsageError
from qdqtool.samples.media_options import SoundOptions
from qdqtool.samples.preprocessing import SoundPreprocessing
from qdqtool.samples.signature import Dim, InputSpec, needed

MOST_CHANNELS = 8
"""Larger dimensions are taken for time."""

_SCRIPT = "a Python script gives any input: its load_data() yields a dict of arrays for each run"


@dataclass(frozen=True, slots=True, kw_only=True)
class SoundInput:
    """An input that takes sound.

    Attributes:
        spec: The input.
        batch: Windows in one run; 1 where the model leaves it open. None where the input has no batch dimension.
        channels: Number of channels.
        channel_axis: Axis of the channels without the batch: 0 for [C, N], 1 for [N, C]. None where it has none.
        length: Values of a window in time; None where the model leaves them open.
    """

    spec: InputSpec
    batch: int | None
    channels: int
    channel_axis: int | None
    length: int | None


def sound_input(specs: Sequence[InputSpec], source: str) -> SoundInput:
    """Return the one input of a model that sound can fill: [N], [B, N], [B, C, N] or [B, N, C].

    Raises:
        UsageError: There is not exactly one input, or it has not the shape or type of sound.
    """
    spec = _only(specs, source)
    shape = spec.shape
    if spec.dtype.kind != "f" or shape is None or len(shape) not in {1, 2, 3}:
        raise UsageError(
            f"{source} holds sound, and the model takes {spec}; an input for sound has a type of floats and the shape "
            "[N], [B, N], [B, C, N] or [B, N, C]",
            hint=_SCRIPT,
        )
    if len(shape) == 1:
        return _input(spec, None, shape[0])
    if len(shape) == 2:
        return _input(spec, _batch(shape[0]), shape[1])
    axis = _channel_axis(spec, shape[1:])
    return _input(spec, _batch(shape[0]), shape[2 - axis], shape[1 + axis], axis)


def _only(specs: Sequence[InputSpec], source: str) -> InputSpec:
    found = needed(specs)
    if len(found) == 1:
        return found[0]
    names = ", ".join(spec.name for spec in found) or "none"
    single = next((spec.name for spec in found if spec.shape in {(), (1,)}), None)
    stored = f"`--input-values {single}:16000` stores one as a constant; " if single is not None else ""
    raise UsageError(
        f"{source} holds sound, which fills one input, and the model has {len(found)}: {names}",
        hint=f"{stored}a Python script gives all inputs: its load_data() yields a dict of arrays for each run",
    )


def _input(
    spec: InputSpec, batch: int | None, length: Dim, channels: Dim = 1, channel_axis: int | None = None
) -> SoundInput:
    assert isinstance(channels, int)
    known = length if isinstance(length, int) else None
    return SoundInput(spec=spec, batch=batch, channels=channels, channel_axis=channel_axis, length=known)


def _batch(first: Dim) -> int:
    return first if isinstance(first, int) and first > 0 else 1


def _channel_axis(spec: InputSpec, inner: Sequence[Dim]) -> int:
    """Return which of the two inner dimensions holds the channels: the one that is known and small."""
    small = [axis for axis, dim in enumerate(inner) if isinstance(dim, int) and 1 <= dim <= MOST_CHANNELS]
    if len(small) != 1:
        problem = "both could hold them" if small else f"neither is from 1 to {MOST_CHANNELS}"
        raise UsageError(
            f"where the channels are cannot be seen in {spec}: of its last two dimensions {problem}", hint=_SCRIPT
        )
    return small[0]


def resolve(options: SoundOptions, taken: SoundInput, source: str) -> SoundPreprocessing:
    """Return the complete preprocessing of sound for an input.

    Raises:
        UsageError: The rate, or a length that the model leaves open, is not given; or the length contradicts the model.
    """
    if options.rate is None:
        raise UsageError(
            f"{source} holds sound, and at which rate the input '{taken.spec.name}' takes it is not known: a model "
            "does not say how it was trained",
            hint="give the rate in Hz: `--sound-rate 16000` (`qdqtool explain sound_and_text`)",
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
    if taken.length is None and options.length is None:
        raise UsageError(
            f"the length of the sound is not known: the model takes {taken.spec}",
            hint="give the number of values of a window: `--sound-length 16000`",
        )
    if taken.length is not None and options.length not in {None, taken.length}:
        raise UsageError(
            f"--sound-length {options.length} contradicts the model, which takes {taken.spec}",
            hint="leave --sound-length out: the length is taken from the model",
        )
    found = taken.length if taken.length is not None else options.length
    assert found is not None
    if found < 1:
        raise UsageError(f"the model takes {taken.spec}, which holds no sound", hint=_SCRIPT)
    return found
