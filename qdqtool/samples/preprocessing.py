"""How images, sound and text became samples, with nothing left open. Ranges files and reports record it."""

from typing import ClassVar

import msgspec

from qdqtool.samples.media_options import Channels, Color, Interpolation, Layout, PixelRange, Resize, SampleRange

_SHOWN_DIGITS = 12


class ImagePreprocessing(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="images"):
    """How images become inputs, with nothing left open. It is recorded in ranges files and reports.

    Attributes:
        size: Height and width of the input in pixels.
        layout: Where the channels are in the input.
        channels: The channels of the input in their order.
        resize: As in :class:`ImageOptions`, like the attributes below.
        interpolation: How pixels are computed.
        crop_ratio: None where nothing is cropped.
        pad_color: None where nothing is filled.
        pixel_range: The range of the pixels before ``mean`` and ``std``.
        mean: One number for each channel; None where nothing is subtracted.
        std: Likewise, for the division.
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
        """One line for reports: ``crop to 224x224, bilinear, rgb, 0..1, mean …, std …``."""
        height, width = self.size
        words = [f"{self.resize} to {height}x{width}" if self.resize != "none" else f"{height}x{width}"]
        if self.resize != "none":
            words.append(self.interpolation)
        words += [self.channels, self.layout, self.pixel_range]
        for name, values in (("mean", self.mean), ("std", self.std)):
            words += [f"{name} {' '.join(f'{value:g}' for value in values)}"] if values is not None else []
        return ", ".join(words)


class SoundPreprocessing(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="sound"):
    """How sound became samples, with nothing left open.

    Attributes:
        rate: Rate in Hz.
        channels: 1 for the mean of all channels of a file, else the number of its channels.
        length: Values of a window in time.
        hop: Values from the start of a window to that of the next.
        sample_range: Whether full scale is 1.0 or 32768.
    """

    kind: ClassVar[str] = "sound"

    rate: int
    channels: int
    length: int
    hop: int
    sample_range: SampleRange

    def __str__(self) -> str:
        """One line for reports: ``16000 Hz, mono, windows of 512 every 512, -1..1``."""
        channels = "mono" if self.channels == 1 else f"{self.channels} channels"
        return f"{self.rate} Hz, {channels}, windows of {self.length} every {self.hop}, {self.sample_range}"


class TextPreprocessing(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="text"):
    """How text became samples, with nothing left open.

    Attributes:
        tokenizer_sha256: SHA-256 of the tokenizer file in hexadecimal.
        length: Number of tokens of a sample: longer lines are cut, shorter ones filled.
        pad_token: The token that fills them.
    """

    kind: ClassVar[str] = "text"

    tokenizer_sha256: str
    length: int
    pad_token: str

    def __str__(self) -> str:
        """One line for reports: ``tokenizer 9b1c…, 128 tokens, filled with [PAD]``."""
        return f"tokenizer {self.tokenizer_sha256[:_SHOWN_DIGITS]}, {self.length} tokens, filled with {self.pad_token}"


Preprocessing = ImagePreprocessing | SoundPreprocessing | TextPreprocessing
"""How files became samples. In JSON the key ``kind`` tells them apart."""
