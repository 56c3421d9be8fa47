"""Lines of text become the arrays that the inputs take: inputs, tokenizers, and files that are no text."""

import hashlib
import os

import numpy as np
import pytest
from support.texts import WORDS, save_tokenizer, text_spec
from tokenizers import Regex, Tokenizer
from tokenizers.pre_tokenizers import Split

from qdqtool.errors import UsageError
from qdqtool.samples.feeds import load_feeds
from qdqtool.samples.media.text import samples
from qdqtool.samples.media.text.samples import TextSamples, length_of, open_tokenizer, text_inputs
from qdqtool.samples.media_options import TextOptions
from qdqtool.samples.options import ReadOptions


@pytest.fixture
def options(tmp_path):
    return ReadOptions(text=TextOptions(tokenizer=save_tokenizer(tmp_path / "tokenizer.json")))


def saved(tmp_path, text):
    path = tmp_path / "t.txt"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def test_each_input_gets_its_part(options, tmp_path):
    specs = (
        *text_spec("input_ids", "token_type_ids"),
        *text_spec("position_ids", dtype=np.dtype(np.int32)),
        *text_spec("attention_mask", dtype=np.dtype(np.float32)),
    )
    (sample,) = load_feeds(saved(tmp_path, "the dog\n"), specs, options=options)
    found = {name: (array.dtype.name, array.tolist()) for name, array in sample.items()}
    assert found == {
        "input_ids": ("int64", [[2, 4, 1, 3, 0, 0]]),
        "token_type_ids": ("int64", [[0, 0, 0, 0, 0, 0]]),
        "position_ids": ("int32", [[0, 1, 2, 3, 4, 5]]),
        "attention_mask": ("float32", [[1, 1, 1, 1, 0, 0]]),
    }


def test_lines_come_in_order_again_and_again_and_empty_ones_are_left_out(options, tmp_path):
    path = saved(tmp_path, "\ufeffthe\r\n\n   \ncat\nsat")
    feeds = load_feeds(path, text_spec("input_ids", shape=(2, 3)), options=options)
    for _ in range(2):
        assert [sample["input_ids"].tolist() for sample in feeds] == [[[2, 4, 3], [2, 5, 3]], [[2, 6, 3], [2, 6, 3]]]
    assert [sample.filler for sample in feeds] == [0, 1]
    assert feeds.description.preprocessing.length == 3


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "has no samples"),
        ("\n \n", "has no samples"),
        (b"the cat\n\xe9t\xe9\n", r"t\.txt is not text in UTF-8: byte 0xe9"),
    ],
)
def test_files_without_text_are_refused(text, says, options, tmp_path):
    with pytest.raises(UsageError, match=says):
        load_feeds(saved(tmp_path, text), text_spec("input_ids"), options=options)


def test_a_tokenizer_that_panics_is_refused_with_the_line(tmp_path):
    path = save_tokenizer(tmp_path / "t.json")
    tokenizer = Tokenizer.from_file(str(path))
    tokenizer.pre_tokenizer = Split(Regex("(a+)+$"), "isolated")
    tokenizer.save(str(path))
    options, specs = ReadOptions(text=TextOptions(tokenizer=path)), text_spec("input_ids")
    assert len(load_feeds(saved(tmp_path, "the\naaa\n"), specs, options=options)) == 2
    with pytest.raises(UsageError, match=r"the tokenizer fails at line 3 of .*t\.txt: Onig: Regex search error"):
        load_feeds(saved(tmp_path, f"the\n\n{'a' * 40}b\n"), specs, options=options)


def test_an_interrupt_is_no_fault_of_the_tokenizer(tmp_path):
    class Interrupted:
        def encode(self, line):
            raise KeyboardInterrupt

    taken = text_inputs(text_spec("input_ids"), "t")
    lines = TextSamples(path=saved(tmp_path, "the"), taken=taken, tokenizer=Interrupted(), preprocessing=None)
    with pytest.raises(KeyboardInterrupt):
        next(iter(lines))


def test_a_line_that_is_no_sample_is_refused(options, tmp_path, monkeypatch):
    monkeypatch.setattr(samples, "MOST_CHARACTERS", 15)
    assert len(load_feeds(saved(tmp_path, "the cat sat on\nthe mat"), text_spec("input_ids"), options=options)) == 2
    with pytest.raises(UsageError, match=r"t\.txt, line 2 has more than 15 characters; each line is a sample"):
        load_feeds(saved(tmp_path, "the\nthe cat sat on the"), text_spec("input_ids"), options=options)


def test_text_is_not_read_from_a_pipe(options, tmp_path):
    os.mkfifo(tmp_path / "t.txt")
    with pytest.raises(UsageError, match="is not of a known kind"):
        load_feeds(tmp_path / "t.txt", text_spec("input_ids"), options=options)


def test_ids_that_the_type_does_not_hold_are_refused(tmp_path):
    words = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", *(f"w{number}" for number in range(300)))
    options = ReadOptions(text=TextOptions(tokenizer=save_tokenizer(tmp_path / "t.json", words)))
    with pytest.raises(UsageError, match=r"token id 299 does not fit the type of the input input_ids: int8 \[1, 6\]"):
        load_feeds(saved(tmp_path, "w1 w295"), text_spec("input_ids", dtype=np.dtype(np.int8)), options=options)


F32 = np.dtype(np.float32)


def test_names_say_what_an_input_takes():
    taken = text_inputs(text_spec("input_ids", "input_mask", "segment_ids", "position_ids"), "t")
    assert [part for _, part in taken.parts] == ["ids", "mask", "types", "positions"]
    assert (taken.batch, taken.length) == (1, 6)


@pytest.mark.parametrize(
    ("shape", "found"),
    [((4, 8), (4, 8)), (("b", "n"), (1, None)), ((9,), (None, 9)), ((None,), (None, None)), ((0, 5), (1, 5))],
)
def test_a_single_input_takes_the_ids_whatever_its_name(shape, found):
    taken = text_inputs(text_spec("x.1", shape=shape), "t")
    assert [part for _, part in taken.parts] == ["ids"]
    assert (taken.batch, taken.length) == found


def test_a_known_extent_of_one_input_is_that_of_all():
    mixed = (*text_spec("input_ids", shape=(None, None)), *text_spec("attention_mask", shape=(2, 7)))
    taken = text_inputs(mixed, "t")
    assert (taken.batch, taken.length) == (2, 7)


@pytest.mark.parametrize(
    ("specs", "says"),
    [
        (
            text_spec("input_ids", "past.0.key", "past.0.value"),
            "no tokenizer gives the input 'past.0.key' and 1 others",
        ),
        (text_spec("attention_mask", "token_type_ids"), "the model has no input 'input_ids'"),
        ((), "the model has no inputs"),
        (text_spec("x", dtype=F32), "token ids are integers of shape"),
        (text_spec("x", shape=(1, 2, 3)), "token ids are integers of shape"),
        (
            (*text_spec("input_ids"), *text_spec("attention_mask", shape=(1, 7))),
            "the inputs have different shapes: input_ids: int64",
        ),
        ((*text_spec("input_ids"), *text_spec("attention_mask", shape=(6,))), "the inputs have different ranks"),
    ],
)
def test_other_inputs_are_refused(specs, says):
    with pytest.raises(UsageError, match=says):
        text_inputs(specs, "t")


def test_a_mask_of_floats_is_taken():
    specs = (*text_spec("input_ids"), *text_spec("attention_mask", dtype=F32))
    assert len(text_inputs(specs, "t").parts) == 2


def test_an_open_length_is_asked_for_and_a_known_one_is_kept():
    fixed, free = (text_inputs(text_spec("x", shape=shape), "t") for shape in ((1, 6), (1, None)))
    assert length_of(TextOptions(), fixed) == length_of(TextOptions(length=6), fixed) == 6
    assert length_of(TextOptions(length=12), free) == 12
    with pytest.raises(UsageError, match="the number of tokens of a sample is not known") as caught:
        length_of(TextOptions(), free)
    assert "`--text-length 128`" in caught.value.hint
    with pytest.raises(UsageError, match="--text-length 9 contradicts the model"):
        length_of(TextOptions(length=9), fixed)


# --- a tokenizer gives each line the same number of tokens ---


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
    with pytest.raises(UsageError, match=r"t\.txt holds text, but its tokenizer is not known") as caught:
        opened(None)
    assert "`--tokenizer tokenizer.json`" in caught.value.hint


def test_a_length_that_the_special_tokens_do_not_leave(tmp_path):
    path = save_tokenizer(tmp_path / "t.json")
    with pytest.raises(UsageError, match=r"puts 2 tokens around each line, and leaves none of 2 for text"):
        opened(path, 2)
    assert opened(path, 3)[0].encode("the cat").ids == [2, 4, 3]
