"""Lines of a text file as samples: one batch at a time is tokenized."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from qdqtool.errors import UsageError
from qdqtool.numerics.dtypes import Array
from qdqtool.samples.media.batches import Row, batched
from qdqtool.samples.media.text.inputs import Part, TextInputs
from qdqtool.samples.media.text.options import TextPreprocessing
from qdqtool.samples.sample import Sample
from qdqtool.samples.signature import InputSpec

if TYPE_CHECKING:
    from tokenizers import Encoding, Tokenizer


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
