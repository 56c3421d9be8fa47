"""Text files in UTF-8; each line is one sample."""

from collections.abc import Sequence
from pathlib import Path

from qdqtool.samples.media.text.samples import TextSamples, length_of, open_tokenizer, text_inputs
from qdqtool.samples.options import ReadOptions
from qdqtool.samples.signature import InputSpec

ACCEPTS = ".txt file with a sample in each line"
HOLDS = "text"
USES = frozenset({"text"})


def accepts(path: Path) -> bool:
    """Return whether ``path`` is a file with the suffix ``.txt``."""
    return path.suffix == ".txt" and path.is_file()


def read_with(path: Path, specs: Sequence[InputSpec], options: ReadOptions) -> TextSamples:
    """Read the lines of a file. Each line is tokenized when its sample is read."""
    taken = text_inputs(specs, str(path))
    tokenizer, how = open_tokenizer(options.text, length_of(options.text, taken), str(path))
    return TextSamples(path=path, taken=taken, tokenizer=tokenizer, preprocessing=how)
