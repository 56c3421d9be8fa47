"""The complete preprocessing of images, sound or text, as ranges files and reports record it."""

from typing import ClassVar

import msgspec

from qdqtool.samples.media_options import Channels, Color, Interpolation, Layout, PixelRange, Resize, SampleRange

_SHOWN_DIGITS = 12


class ImagePreprocessing(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="images"):
    """The complete preprocessing of images, as ranges files and reports record it.

    Attributes:
        size: Height and width of the input in pixels.
        layout: The position of the channel axis in the input.
        channels: The order of the channels in the input.
        resize: How an image gets the size of the input; see :class:`ImageOptions`.
        interpolation: How pixels are computed.
        crop_ratio: The share of each side that is kept; None if nothing is cropped.
        pad_color: The color of the border; None if nothing is padded.
        pixel_range: The range to which pixels are mapped before ``mean`` and ``std`` are applied.
        mean: The number subtracted from each channel; None if nothing is subtracted.
        std: The divisor of each channel; None if nothing is divided.
    """

    kind: ClassVar[str] = "images"

    size: tuple[int, int]
    layout: Layout
    channels: Channels
    resize: Resize
    interpolation: Interpolation
    crop_ratio: float | None
    pad_color: Color | None
    pixel_range: PixelRange
    mean: tuple[float, ...] | None
    std: tuple[float, ...] | None

    def __str__(self) -> str:
        """Return one line for reports: ``crop to 224x224, bilinear, rgb, 0..1, mean …, std …``."""
        height, width = self.size
        words = [f"{self.resize} to {height}x{width}" if self.resize != "none" else f"{height}x{width}"]
        if self.resize != "none":
            words.append(self.interpolation)
        words += [self.channels, self.layout, self.pixel_range]
        for name, values in (("mean", self.mean), ("std", self.std)):
            words += [f"{name} {' '.join(f'{value:g}' for value in values)}"] if values is not None else []
        return ", ".join(words)


class SoundPreprocessing(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="sound"):
    """The complete preprocessing of sound.

    Attributes:
        rate: Sample rate in Hz.
        channels: 1 for the mean of all channels of a file, otherwise the number of channels of the file.
        length: Number of values of a window along time.
        hop: Number of values from the start of one window to the start of the next.
        sample_range: The range of the values: full scale is 1.0 (``-1..1``) or 32768 (``int16``).
    """

    kind: ClassVar[str] = "sound"

    rate: int
    channels: int
    length: int
    hop: int
    sample_range: SampleRange

    def __str__(self) -> str:
        """Return one line for reports: ``16000 Hz, mono, windows of 512 every 512, -1..1``."""
        channels = "mono" if self.channels == 1 else f"{self.channels} channels"
        return f"{self.rate} Hz, {channels}, windows of {self.length} every {self.hop}, {self.sample_range}"


class TextPreprocessing(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="text"):
    """The complete preprocessing of text.

    Attributes:
        tokenizer_sha256: SHA-256 of the tokenizer file as hexadecimal digits.
        length: Number of tokens of a sample: longer lines are truncated, shorter lines are padded.
        pad_token: The token that pads short lines.
    """

    kind: ClassVar[str] = "text"

    tokenizer_sha256: str
    length: int
    pad_token: str

    def __str__(self) -> str:
        """Return one line for reports: ``tokenizer 9b1c…, 128 tokens, filled with [PAD]``."""
        return f"tokenizer {self.tokenizer_sha256[:_SHOWN_DIGITS]}, {self.length} tokens, filled with {self.pad_token}"


Preprocessing = ImagePreprocessing | SoundPreprocessing | TextPreprocessing
"""How files became samples. In JSON the key ``kind`` names the class."""
