"""Options of the commands that read files which hold no arrays: images, sound and text."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from qdqtool.cli.images import IMAGES, image_options, make_image_options

if TYPE_CHECKING:
    from qdqtool.samples.read_options import ReadOptions

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

SOUND_AND_TEXT = (
    "sound_rate",
    "sound_length",
    "sound_hop",
    "sound_range",
    "tokenizer",
    "text_length",
    "text_pad_token",
)

MEDIA = (*IMAGES, *SOUND_AND_TEXT)
"""All these options."""

LAYOUT: Mapping[str, Sequence[str]] = {"Images": IMAGES, "Sound and text": SOUND_AND_TEXT}
"""The options under their headings in help texts."""

OF_CALIBRATION = ("labels", "preview")
"""The options that validation data has no use for."""

_GOES_WITH = {"image": "a folder of images", "sound": "a folder of sound files", "text": "a text file"}


def media_options() -> Callable[[Decorated], Decorated]:
    """The options of images, sound and text; :func:`make_read_options` takes their values."""
    options = (
        image_options(),
        click.option(
            "--sound-rate",
            type=click.IntRange(min=1),
            metavar="HZ",
            help="The rate that the network was trained with; files of another rate are resampled "
            "(`qdqtool explain sound_and_text`).",
        ),
        click.option(
            "--sound-length",
            type=click.IntRange(min=1),
            metavar="N",
            help="Values of a window in time, where the model leaves them open.",
        ),
        click.option(
            "--sound-hop",
            type=click.IntRange(min=1),
            metavar="N",
            help="Values from the start of a window to that of the next.  [default: the length]",
        ),
        click.option(
            "--sound-range",
            type=click.Choice(["-1..1", "int16"]),
            help="Whether full scale is 1 or 32768.  [default: -1..1]",
        ),
        click.option(
            "--tokenizer",
            type=click.Path(path_type=Path),
            metavar="FILE",
            help="tokenizer.json, which makes token ids of the lines of a .txt file.",
        ),
        click.option(
            "--text-length",
            type=click.IntRange(min=1),
            metavar="N",
            help="Tokens of a sample, where the model leaves them open.",
        ),
        click.option(
            "--text-pad-token", metavar="TOKEN", help="What fills short lines.  [default: as the tokenizer says]"
        ),
    )

    def decorate(function: Decorated) -> Decorated:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


def make_read_options(values: Mapping[str, Any]) -> "ReadOptions":
    """The request that the values of :func:`media_options` make."""
    from qdqtool.samples.media.sound.options import SoundOptions
    from qdqtool.samples.media.text.options import TextOptions
    from qdqtool.samples.read_options import ReadOptions

    return ReadOptions(
        images=make_image_options(values),
        sound=SoundOptions(
            rate=values["sound_rate"],
            length=values["sound_length"],
            hop=values["sound_hop"],
            sample_range=values["sound_range"],
        ),
        text=TextOptions(
            tokenizer=values["tokenizer"], length=values["text_length"], pad_token=values["text_pad_token"]
        ),
        labels=values["labels"],
        preview=values["preview"],
    )


def require_data(values: Mapping[str, Any], has_data: bool, names: Sequence[str] = MEDIA) -> None:
    """Check that there is data where options of files that hold no arrays are given.

    Args:
        values: The values of :func:`media_options`.
        has_data: Whether there is data.
        names: The options that need it.

    Raises:
        UsageError: An option is given, and there is no data.
    """
    from qdqtool.errors import UsageError

    given = [name for name in names if values[name] is not None]
    if given and not has_data:
        kind = "text" if given[0] == "tokenizer" else given[0].partition("_")[0]
        raise UsageError(
            f"--{given[0].replace('_', '-')} goes with {_GOES_WITH.get(kind, _GOES_WITH['image'])}, and no such data "
            "is given",
            hint="name it with --calib-data, which is the same as --data",
        )
