"""Illegal values of the options are refused with the legal ones, and records of preprocessing are one line."""

import pytest

from qdqtool.errors import ArgumentError
from qdqtool.samples.media_options import ImageOptions, SoundOptions, TextOptions
from qdqtool.samples.preprocessing import SoundPreprocessing, TextPreprocessing


@pytest.mark.parametrize(
    ("kind", "given", "says"),
    [
        (ImageOptions, {"resize": "fit"}, "resize is 'fit'; it must be one of crop, letterbox, stretch, none"),
        (ImageOptions, {"interpolation": "cubic"}, "did you mean 'bicubic'"),
        (ImageOptions, {"channels": "RGB"}, "channels is 'RGB'"),
        (ImageOptions, {"crop_ratio": 0.0}, "crop_ratio is 0"),
        (ImageOptions, {"crop_ratio": 1.5}, "crop_ratio is 1.5"),
        (ImageOptions, {"size": (0, 5)}, "size is"),
        (ImageOptions, {"pad_color": (0, 0, 256)}, "pad_color is"),
        (ImageOptions, {"mean": (1.0, 2.0)}, "mean is"),
        (ImageOptions, {"mean": (float("nan"),)}, "mean is"),
        (ImageOptions, {"std": (1.0, 0.0, 1.0)}, "larger than 0"),
        (SoundOptions, {"rate": 0}, "rate of sound is 0; it must be from 1 to 4,000,000"),
        (SoundOptions, {"rate": 1 << 31}, "rate of sound is 2147483648; it must be from 1 to 4,000,000"),
        (SoundOptions, {"length": 10**12}, "length of sound is 1000000000000; it must be from 1 to 67,108,864"),
        (SoundOptions, {"length": -1}, "length of sound is -1"),
        (SoundOptions, {"hop": 0}, "hop of sound is 0"),
        (
            SoundOptions,
            {"sample_range": "int61"},
            "sample_range is 'int61'; it must be one of -1..1, int16.*did you mean 'int16'",
        ),
        (TextOptions, {"length": 0}, "length of text is 0; it must be from 1 to 1,048,576"),
        (TextOptions, {"length": 1 << 64}, "length of text is 18446744073709551616; it must be from 1 to"),
    ],
)
def test_illegal_values_are_refused_with_the_legal_ones(kind, given, says):
    with pytest.raises(ArgumentError, match=says):
        kind(**given)


@pytest.mark.parametrize(("channels", "said"), [(1, "mono"), (2, "2 channels")])
def test_the_record_of_sound_is_one_line(channels, said):
    how = SoundPreprocessing(rate=8000, channels=channels, length=256, hop=128, sample_range="int16")
    assert str(how) == f"8000 Hz, {said}, windows of 256 every 128, int16"


def test_the_record_of_text_is_one_line():
    how = TextPreprocessing(tokenizer_sha256="0123456789abcdef" * 4, length=128, pad_token="[PAD]")
    assert str(how) == "tokenizer 0123456789ab, 128 tokens, filled with [PAD]"
