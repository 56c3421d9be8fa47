"""A tokenizer.json gives each line the same number of tokens, and is refused where it cannot."""

import hashlib

import pytest
from support.texts import WORDS, save_tokenizer

from qdqtool.errors import UsageError
from qdqtool.samples.media.text.samples import open_tokenizer
from qdqtool.samples.media_options import TextOptions


def opened(path, length=6, **given):
    return open_tokenizer(TextOptions(tokenizer=path, **given), length, "t.txt")


def test_short_lines_are_filled_and_long_ones_cut(tmp_path):
    path = save_tokenizer(tmp_path / "t.json")
    tokenizer, how = opened(path)
    assert tokenizer.encode("the cat").ids == [2, 4, 5, 3, 0, 0]
    assert tokenizer.encode("the cat").attention_mask == [1, 1, 1, 1, 0, 0]
    assert tokenizer.encode("the cat sat on the mat").ids == [2, 4, 5, 6, 7, 3]
    assert (how.length, how.pad_token) == (6, "[PAD]")
    assert how.tokenizer_sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


def test_the_file_says_how_it_fills(tmp_path):
    path = save_tokenizer(tmp_path / "t.json", pad="mat")
    tokenizer, how = opened(path)
    assert tokenizer.encode("the").ids == [8, 8, 8, 2, 4, 3]
    assert how.pad_token == "mat"
    tokenizer, how = opened(path, pad_token="cat")
    assert tokenizer.encode("the").ids == [5, 5, 5, 2, 4, 3]


def test_a_tokenizer_without_a_token_that_fills(tmp_path):
    path = save_tokenizer(tmp_path / "t.json", words=("end", *WORDS[1:]))
    with pytest.raises(UsageError, match="has no token that fills short lines") as caught:
        opened(path)
    assert "`--text-pad-token '<|endoftext|>'`" in caught.value.hint
    assert opened(path, pad_token="end")[0].encode("the").ids == [2, 4, 3, 0, 0, 0]
    with pytest.raises(UsageError, match="has no token 'ending'"):
        opened(path, pad_token="ending")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "is no tokenizer.json"),
        (b'{"model": "bert"}', "is no tokenizer.json"),
        (b"\xff\xfe", "is no tokenizer.json"),
        (b"[CLS]\n[SEP]\nthe\n", "is no tokenizer.json"),
    ],
)
def test_other_files_are_refused(content, says, tmp_path):
    (tmp_path / "vocab.txt").write_bytes(content)
    with pytest.raises(UsageError, match=says) as caught:
        opened(tmp_path / "vocab.txt")
    assert "save_pretrained" in caught.value.hint


def test_a_missing_file_and_none(tmp_path):
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        opened(tmp_path / "none.json")
    with pytest.raises(UsageError, match=r"t\.txt holds text, and how it becomes token ids is not known") as caught:
        opened(None)
    assert "`--tokenizer tokenizer.json`" in caught.value.hint


def test_a_length_that_the_special_tokens_do_not_leave(tmp_path):
    path = save_tokenizer(tmp_path / "t.json")
    with pytest.raises(UsageError, match=r"puts 2 tokens around each line, which leaves none of 2 for text"):
        opened(path, 2)
    assert opened(path, 3)[0].encode("the cat").ids == [2, 4, 3]
