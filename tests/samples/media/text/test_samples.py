"""Lines of text become the arrays that the inputs take, and files that are no text are refused."""

import numpy as np
import pytest
from support.texts import save_tokenizer, text_spec

from qdqtool.errors import UsageError
from qdqtool.samples.feeds import load_feeds
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


def test_ids_that_the_type_does_not_hold_are_refused(tmp_path):
    words = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", *(f"w{number}" for number in range(300)))
    options = ReadOptions(text=TextOptions(tokenizer=save_tokenizer(tmp_path / "t.json", words)))
    with pytest.raises(UsageError, match=r"token id 299 does not fit the type of the input input_ids: int8 \[1, 6\]"):
        load_feeds(saved(tmp_path, "w1 w295"), text_spec("input_ids", dtype=np.dtype(np.int8)), options=options)
