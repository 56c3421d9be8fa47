"""Which input takes sound, and what is taken from the model or asked for."""

import numpy as np
import pytest
from support.sounds import sound_spec

from qdqtool.errors import UsageError
from qdqtool.samples.media.sound.resolve import resolve, sound_input
from qdqtool.samples.media_options import SoundOptions
from qdqtool.samples.signature import InputSpec

RATE = SoundOptions(rate=16000)


@pytest.mark.parametrize(
    ("shape", "found"),
    [
        ((400,), (None, 1, None, 400)),
        ((None,), (None, 1, None, None)),
        ((1, 400), (1, 1, None, 400)),
        (("batch", "time"), (1, 1, None, None)),
        ((4, 400), (4, 1, None, 400)),
        ((1, 1, 400), (1, 1, 0, 400)),
        ((1, 2, "time"), (1, 2, 0, None)),
        (("batch", 400, 2), (1, 2, 1, 400)),
    ],
)
def test_the_shape_says_what_an_input_takes(shape, found):
    taken = sound_input(sound_spec(*shape), "d")
    assert (taken.batch, taken.channels, taken.channel_axis, taken.length) == found


@pytest.mark.parametrize(
    ("specs", "says"),
    [
        (sound_spec(1, 2, 2), "the channel axis of input x: .* both could hold channels"),
        (sound_spec(1, "a", "b"), "the channel axis of .* neither is from 1 to 8"),
        (sound_spec(1, 3, 8, 8), "an input for sound has a type of floats and the shape"),
        (sound_spec(1, 400, dtype=np.dtype(np.int64)), "an input for sound has a type of floats"),
        ((InputSpec("x", np.dtype(np.float32), None),), "an input for sound"),
        ((), "which fills one input, and the model has 0: none"),
    ],
)
def test_other_inputs_are_refused(specs, says):
    with pytest.raises(UsageError, match=says):
        sound_input(specs, "d")


def test_further_inputs_are_named_with_a_hint():
    rate = InputSpec("sr", np.dtype(np.int64), ())
    with pytest.raises(UsageError, match="the model has 2: x, sr") as caught:
        sound_input((*sound_spec(1, 400), rate), "d")
    assert "`--input-values sr:16000`" in caught.value.hint
    stored = InputSpec("sr", np.dtype(np.int64), (), np.array(16000))
    assert sound_input((*sound_spec(1, 400), stored), "d").length == 400


def test_nothing_is_open_in_the_record():
    taken = sound_input(sound_spec(1, 2, 400), "d")
    how = resolve(SoundOptions(rate=8000, hop=100, sample_range="int16"), taken, "d")
    assert (how.rate, how.channels, how.length, how.hop, how.sample_range) == (8000, 2, 400, 100, "int16")
    plain = resolve(SoundOptions(rate=8000, length=30), sound_input(sound_spec(None), "d"), "d")
    assert (plain.length, plain.hop, plain.sample_range) == (30, 30, "-1..1")


@pytest.mark.parametrize(
    ("options", "shape", "says", "hint"),
    [
        (SoundOptions(), (1, 400), "the sample rate of input 'x' is not known", "`--sound-rate 16000`"),
        (RATE, (1, None), "the length of the sound is not known", "`--sound-length 16000`"),
        (SoundOptions(rate=1, length=9), (1, 400), "--sound-length 9 contradicts the model", "leave --sound-length"),
        (RATE, (1, 0), "which holds no sound", "a Python script"),
    ],
)
def test_what_is_missing_is_asked_for(options, shape, says, hint):
    with pytest.raises(UsageError, match=says) as caught:
        resolve(options, sound_input(sound_spec(*shape), "d"), "d")
    assert hint in caught.value.hint
