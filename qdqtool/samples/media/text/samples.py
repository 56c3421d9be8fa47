"""Make samples from the lines of a text file: tokenize one batch at a time."""

import contextlib
import hashlib
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from qdqtool.errors import CapabilityError, UsageError, plural
from qdqtool.numerics.dtypes import Array
from qdqtool.samples.media.files import SCRIPT, BatchRow, batched, settled_length
from qdqtool.samples.media_options import TextOptions
from qdqtool.samples.preprocessing import TextPreprocessing
from qdqtool.samples.sample import Sample
from qdqtool.samples.signature import Dim, InputSpec, needed

if TYPE_CHECKING:
    from tokenizers import Encoding, Tokenizer


Part = Literal["ids", "mask", "types", "positions"]

# The names input_mask and segment_ids come from Google's BERT; MLPerf's models still use them.
PARTS: dict[str, Part] = {
    "input_ids": "ids",
    "attention_mask": "mask",
    "input_mask": "mask",
    "token_type_ids": "types",
    "segment_ids": "types",
    "position_ids": "positions",
}
"""The part of the tokenizer output that an input gets, by the name of the input."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextInputs:
    """The inputs of a model that accepts text.

    Attributes:
        parts: Each input, and what it receives.
        batch: Lines in one run, 1 if the batch is dynamic; None if the inputs have no batch dimension.
        length: Number of tokens of a line; None if the model allows any number.
    """

    parts: tuple[tuple[InputSpec, Part], ...]
    batch: int | None
    length: int | None


def text_inputs(specs: Sequence[InputSpec], source: str) -> TextInputs:
    """Return the inputs that a tokenizer fills: ``[B, N]`` or ``[N]``. A single input receives the token ids.

    Raises:
        UsageError: An input has an unknown name, an unsuitable shape or type, or a shape that differs from the others.
    """
    found = needed(specs)
    parts = tuple((spec, PARTS.get(spec.name)) for spec in found)
    if len(parts) == 1:
        parts = ((found[0], "ids"),)
    known = tuple((spec, part) for spec, part in parts if part is not None)
    if "ids" not in {part for _, part in known} or len(known) < len(found):
        _refuse_names(parts, source)
    for spec, part in known:
        _check(spec, part, source)
    shapes = {spec.shape for spec, _ in known if spec.shape is not None}
    ranks = {len(shape) for shape in shapes}
    if len(ranks) > 1:
        raise UsageError(f"{source} holds text, and the inputs have different ranks: {_listed(found)}", hint=SCRIPT)
    return TextInputs(
        parts=known,
        batch=_common([shape[0] for shape in shapes], found, source) or 1 if ranks == {2} else None,
        length=_common([shape[-1] for shape in shapes], found, source),
    )


def length_of(options: TextOptions, taken: TextInputs) -> int:
    """Return the number of tokens of a sample.

    Raises:
        UsageError: Neither the model nor the option gives the number, or the option contradicts the model.
    """
    takes = _listed([spec for spec, _ in taken.parts])
    unknown = UsageError(
        f"the number of tokens of a sample is not known: the model takes {takes}", hint="give it: `--text-length 128`"
    )
    return settled_length("--text-length", options.length, taken.length, takes, unknown)


def _refuse_names(parts: Sequence[tuple[InputSpec, Part | None]], source: str) -> None:
    unknown = [spec.name for spec, part in parts if part is None]
    given = ", ".join(PARTS)
    if not parts:
        raise UsageError(f"{source} holds text, and the model has no inputs")
    if unknown:
        others = f" and {len(unknown) - 1} others" if len(unknown) > 1 else ""
        raise UsageError(
            f"{source} holds text, and no tokenizer gives the input '{unknown[0]}'{others}; it gives {given}",
            hint=SCRIPT,
        )
    raise UsageError(f"{source} holds text, and the model has no input 'input_ids' for the token ids", hint=SCRIPT)


def _check(spec: InputSpec, part: Part, source: str) -> None:
    is_integer = spec.dtype.kind in "iu"
    if spec.shape is None or len(spec.shape) not in {1, 2} or not (is_integer or part == "mask"):
        raise UsageError(
            f"{source} holds text, and the model takes {spec}; token ids are integers of shape [B, N] or [N]",
            hint=SCRIPT,
        )


def _common(dims: Sequence[Dim], specs: Sequence[InputSpec], source: str) -> int | None:
    known = {dim for dim in dims if isinstance(dim, int) and dim > 0}
    if len(known) > 1:
        raise UsageError(f"{source} holds text, and the inputs have different shapes: {_listed(specs)}", hint=SCRIPT)
    return next(iter(known), None)


def _listed(specs: Sequence[InputSpec]) -> str:
    return "; ".join(map(str, specs))


PAD_TOKENS = ("[PAD]", "<pad>", "<PAD>", "<|pad|>")
"""Names that tokenizers give to the padding token."""


def open_tokenizer(options: TextOptions, length: int, source: str) -> tuple["Tokenizer", TextPreprocessing]:
    """Return a tokenizer that gives exactly ``length`` tokens for each line, and a record of its settings.

    Raises:
        UsageError: No tokenizer is given, it cannot be read, it has no padding token, or its special tokens leave no
            space for text.
    """
    if options.tokenizer is None:
        raise UsageError(
            f"{source} holds text, but its tokenizer is not known",
            hint="name the tokenizer of the model: `--tokenizer tokenizer.json`",
        )
    content = _content(options.tokenizer)
    tokenizer = _decoded(content, options.tokenizer)
    pad_token, settings = _padding(tokenizer, options)
    # If the special tokens leave no space for text, the library does not truncate at all.
    special = tokenizer.num_special_tokens_to_add(False)
    if special >= length:
        raise UsageError(
            f"{options.tokenizer} puts {plural(special, 'token')} around each line, and leaves none of {length} for "
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
    hint = "in transformers, `tokenizer.save_pretrained(FOLDER)` of a fast tokenizer writes it"
    with _panics(f"{path} is no tokenizer.json", hint):
        return Tokenizer.from_buffer(content)


@contextlib.contextmanager
def _panics(problem: str, hint: str | None = None) -> Iterator[None]:
    """Turn every error of the library, also a panic of its Rust code, into one message."""
    try:
        yield
    except BaseException as error:  # a panic, such as that of a pattern that backtracks too long, is no Exception
        if isinstance(error, (KeyboardInterrupt, SystemExit, MemoryError)):
            raise
        raise UsageError(f"{problem}: {next(iter(str(error).splitlines()), 'no message')}", hint=hint) from None


def _padding(tokenizer: "Tokenizer", options: TextOptions) -> tuple[str, dict[str, Any]]:
    """Return the padding token and the padding settings, which the tokenizer file may give."""
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


MOST_CHARACTERS = 1_000_000
"""Largest number of characters of a line. The library needs 42 bytes and more for each, also beyond the last token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextSamples:
    """The lines of a file as samples; empty lines are left out.

    Attributes:
        path: The file, in UTF-8.
        taken: The inputs that the lines fill.
        tokenizer: The tokenizer; it gives each line the number of tokens that the inputs need.
        preprocessing: The record of the tokenizer's settings.
    """

    path: Path
    taken: TextInputs
    tokenizer: "Tokenizer"
    preprocessing: TextPreprocessing

    def __iter__(self) -> Iterator[Sample]:
        rows = (BatchRow(self._arrays(self._encoded(number, line))) for number, line in _lines(self.path))
        return batched(rows, self.taken.batch)

    def _encoded(self, number: int, line: str) -> "Encoding":
        with _panics(f"the tokenizer fails at line {number} of {self.path}"):
            return self.tokenizer.encode(line)

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


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the number (from 1) and the text of each line that is not empty."""
    try:
        with path.open(encoding="utf-8-sig") as stream:
            for number in itertools.count(1):
                if not (line := stream.readline(MOST_CHARACTERS + 1)):
                    return
                if len(line) > MOST_CHARACTERS:
                    raise UsageError(
                        f"{path}, line {number} has more than {MOST_CHARACTERS:,} characters; each line is a sample",
                        hint="divide it into lines: tokens beyond the length of the input are not used",
                    )
                if line.strip():
                    yield number, line.rstrip("\n")
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise UsageError(
            f"{path} is not text in UTF-8: byte {error.object[error.start]:#04x}",
            hint="save it as UTF-8, one sample a line",
        ) from None
