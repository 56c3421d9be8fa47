"""How files that do not hold arrays become inputs: options that a caller gives beside the path of the data."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from qdqtool.errors import UsageError
from qdqtool.samples.media.images.options import ImageOptions, ImagePreprocessing
from qdqtool.samples.media.sound.options import SoundOptions, SoundPreprocessing
from qdqtool.samples.media.text.options import TextOptions, TextPreprocessing

Preprocessing = ImagePreprocessing | SoundPreprocessing | TextPreprocessing
"""How files became samples. In JSON the key ``kind`` tells them apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """How files that do not hold arrays become inputs.

    Attributes:
        images: The preprocessing of images.
        sound: The preprocessing of sound.
        text: The preprocessing of text.
        labels: A CSV file with the label of each image or sound file; None to take labels from the names of folders.
        preview: A PNG to write, which shows the first images after preprocessing; None for none.
    """

    images: ImageOptions = field(default_factory=ImageOptions)
    sound: SoundOptions = field(default_factory=SoundOptions)
    text: TextOptions = field(default_factory=TextOptions)
    labels: Path | None = None
    preview: Path | None = None

    def refuse_all_but(self, used: Collection[str], source: object, holds: str) -> None:
        """Refuse options that have no use for some data.

        Args:
            used: The attributes that have a use.
            source: The data, for the message.
            holds: What it holds, in words.

        Raises:
            UsageError: Another option is given.
        """
        given = [
            said for name, said in _SAID.items() if name not in used and getattr(self, name) != getattr(_NOTHING, name)
        ]
        if given:
            raise UsageError(
                f"{source} holds {holds}, which has no use for {' and '.join(given)}",
                hint="leave them out, or name the data that they are for",
            )


_NOTHING = ReadOptions()
_SAID: Mapping[str, str] = {
    "images": "the options of images",
    "sound": "the options of sound",
    "text": "the options of text",
    "labels": "--labels",
    "preview": "--preview",
}
