"""What may be asked for sound, and what a record of it says."""

import pytest

from qdqtool.errors import ArgumentError
from qdqtool.samples.media_options import SoundOptions
from qdqtool.samples.preprocessing import SoundPreprocessing


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"rate": 0}, "rate of sound is 0; it must be at least 1"),
        ({"length": -1}, "length of sound is -1"),
        ({"hop": 0}, "hop of sound is 0"),
        ({"sample_range": "int61"}, "sample_range is 'int61'; it must be one of -1..1, int16.*did you mean 'int16'"),
    ],
)
def test_illegal_values_are_named(given, says):
    with pytest.raises(ArgumentError, match=says):
        SoundOptions(**given)


@pytest.mark.parametrize(("channels", "said"), [(1, "mono"), (2, "2 channels")])
def test_the_record_is_one_line(channels, said):
    how = SoundPreprocessing(rate=8000, channels=channels, length=256, hop=128, sample_range="int16")
    assert str(how) == f"8000 Hz, {said}, windows of 256 every 128, int16"
