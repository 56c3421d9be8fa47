"""What may be asked for text, and what a record of it says."""

import pytest

from qdqtool.errors import ArgumentError
from qdqtool.samples.media_options import TextOptions
from qdqtool.samples.preprocessing import TextPreprocessing


def test_a_length_is_at_least_one():
    with pytest.raises(ArgumentError, match="length of text is 0; it must be at least 1"):
        TextOptions(length=0)


def test_the_record_is_one_line():
    how = TextPreprocessing(tokenizer_sha256="0123456789abcdef" * 4, length=128, pad_token="[PAD]")
    assert str(how) == "tokenizer 0123456789ab, 128 tokens, filled with [PAD]"
