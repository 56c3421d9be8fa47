"""Lines of a text file as samples: one batch at a time is tokenized."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from qdqtool.errors import CapabilityError, UsageError, plural
from qdqtool.numerics.dtypes import Array
from qdqtool.samples.media.files import Row, batched
from qdqtool.samples.media.text.inputs import Part, TextInputs
from qdqtool.samples.media.text.options import TextOptions, TextPreprocessing
from qdqtool.samples.sample import Sample
from qdqtool.samples.signature import InputSpec

if TYPE_CHECKING:
    from tokenizers import Tokenizer
if TYPE_CHECKING:
    from tokenizers import Encoding, Tokenizer


PAD_TOKENS = ("[PAD]", "<pad>", "<PAD>", "<|pad|>")
"""The tokens that fill, by the names that tokenizers give them."""


def open_tokenizer(options: TextOptions, length: int, source: str) -> tuple["Tokenizer", TextPreprocessing]:
    """Return a tokenizer that gives exactly ``length`` tokens for each line, and the record of it.

    Args:
        options: The request.
        length: Number of tokens.
        source: The text file, for messages.

    Raises:
        UsageError: No tokenizer is given, it cannot be read, it has no token that fills, or its special
            tokens leave no place for text.
    """
    if options.tokenizer is None:
        raise UsageError(
            f"{source} holds text, and how it becomes token ids is not known",
            hint="name the tokenizer of the model: `--tokenizer tokenizer.json`",
        )
    content = _content(options.tokenizer)
    tokenizer = _decoded(content, options.tokenizer)
    pad_token, settings = _padding(tokenizer, options)
    # Where the special tokens leave no place, the library does not cut at all.
    special = tokenizer.num_special_tokens_to_add(False)
    if special >= length:
        raise UsageError(
            f"{options.tokenizer} puts {plural(special, 'token')} around each line, which leaves none of {length} for "
            "text"
        )
    tokenizer.enable_truncation(max_length=length)
    tokenizer.enable_padding(length=length, **settings)
    digest = hashlib.sha256(content).hexdigest()
    return tokenizer, TextPreprocessing(tokenizer_sha256=digest, length=length, pad_token=pad_token)


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"tokenizer {path} cannot be read: {error.strerror or error}") from None


def _decoded(content: bytes, path: Path) -> "Tokenizer":
    try:
        from tokenizers import Tokenizer
    except ImportError:
        raise CapabilityError(
            "text is read with the library tokenizers, which is not installed", hint="`pip install tokenizers`"
        ) from None
    try:
        return Tokenizer.from_buffer(content)
    except Exception as error:  # noqa: BLE001 - the library raises nothing more exact
        raise UsageError(
            f"{path} is no tokenizer.json: {str(error).splitlines()[0]}",
            hint="in transformers, `tokenizer.save_pretrained(FOLDER)` of a fast tokenizer writes it",
        ) from None


def _padding(tokenizer: "Tokenizer", options: TextOptions) -> tuple[str, dict[str, Any]]:
    """Return the token that fills, and how: as the file says, where it says it."""
    said: dict[str, Any] = tokenizer.padding or {}
    kept: dict[str, Any] = {key: said[key] for key in ("direction", "pad_type_id") if key in said}
    named = options.pad_token or said.get("pad_token")
    token = named or next((token for token in PAD_TOKENS if tokenizer.token_to_id(token) is not None), None)
    if token is None:
        raise UsageError(
            f"{options.tokenizer} has no token that fills short lines ({', '.join(PAD_TOKENS)})",
            hint="name one: `--text-pad-token '<|endoftext|>'`",
        )
    number = tokenizer.token_to_id(token)
    if number is None:
        raise UsageError(f"{options.tokenizer} has no token '{token}', which is to fill short lines")
    return token, {"pad_token": token, "pad_id": number, **kept}


@dataclass(frozen=True, slots=True, kw_only=True)
class TextSamples:
    """The lines of a file as samples; lines without text are left out.

    Attributes:
        path: The file, in UTF-8.
        taken: The inputs that the lines fill.
        tokenizer: Gives as many tokens for each line as the inputs take.
        preprocessing: The record of the tokenizer.
    """

    path: Path
    taken: TextInputs
    tokenizer: "Tokenizer"
    preprocessing: TextPreprocessing

    def __iter__(self) -> Iterator[Sample]:
        rows = (Row(self._arrays(self.tokenizer.encode(line))) for line in _lines(self.path))
        return batched(rows, self.taken.batch)

    def _arrays(self, encoded: "Encoding") -> dict[str, Array]:
        found: dict[Part, list[int]] = {
            "ids": encoded.ids,
            "mask": encoded.attention_mask,
            "types": encoded.type_ids,
            "positions": list(range(len(encoded.ids))),
        }
        return {spec.name: _as_type(found[part], spec) for spec, part in self.taken.parts}


def _as_type(values: list[int], spec: InputSpec) -> Array:
    found = np.array(values, np.int64)
    converted = found.astype(spec.dtype)
    if not np.array_equal(converted, found):
        raise UsageError(f"token id {found.max()} does not fit the type of the input {spec}")
    return converted


def _lines(path: Path) -> Iterator[str]:
    try:
        with path.open(encoding="utf-8-sig") as stream:
            yield from (line.rstrip("\n") for line in stream if line.strip())
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise UsageError(
            f"{path} is not text in UTF-8: byte {error.object[error.start]:#04x}",
            hint="save it as UTF-8, one sample a line",
        ) from None
