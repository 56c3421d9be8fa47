"""Illegal values of the options are refused with the legal ones."""

import pytest

from qdqtool.errors import ArgumentError
from qdqtool.samples.media_options import ImageOptions


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"resize": "fit"}, "resize is 'fit'; it must be one of crop, letterbox, stretch, none"),
        ({"interpolation": "cubic"}, "did you mean 'bicubic'"),
        ({"channels": "RGB"}, "channels is 'RGB'"),
        ({"crop_ratio": 0.0}, "crop_ratio is 0"),
        ({"crop_ratio": 1.5}, "crop_ratio is 1.5"),
        ({"size": (0, 5)}, "size is"),
        ({"pad_color": (0, 0, 256)}, "pad_color is"),
        ({"mean": (1.0, 2.0)}, "mean is"),
        ({"mean": (float("nan"),)}, "mean is"),
        ({"std": (1.0, 0.0, 1.0)}, "larger than 0"),
    ],
)
def test_illegal_values_are_refused(given, says):
    with pytest.raises(ArgumentError, match=says):
        ImageOptions(**given)
