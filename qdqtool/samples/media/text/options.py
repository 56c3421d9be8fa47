"""The preprocessing of text as a user requests it, and as it is carried out."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import msgspec

from qdqtool.errors import ArgumentError

_SHOWN_DIGITS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class TextOptions:
    """How lines of text become inputs, as requested.

    Attributes:
        tokenizer: A ``tokenizer.json`` of the library tokenizers; required.
        length: Number of tokens of a sample, where the model leaves it open.
        pad_token: The token that fills short lines; None for that of the tokenizer.

    Raises:
        ArgumentError: The length is not at least 1.
    """

    tokenizer: Path | None = None
    length: int | None = None
    pad_token: str | None = None

    def __post_init__(self) -> None:
        if self.length is not None and self.length < 1:
            raise ArgumentError(f"length of text is {self.length}; it must be at least 1")


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
