"""Text files: what is accepted, and what is said without options."""

import pytest
from support.texts import text_spec

from qdqtool.errors import UsageError
from qdqtool.samples.feeds import load_feeds
from qdqtool.samples.media_options import SoundOptions
from qdqtool.samples.options import ReadOptions
from qdqtool.samples.readers import text_file


def test_a_folder_of_that_name_is_no_text_file(tmp_path):
    (tmp_path / "d.txt").mkdir()
    (tmp_path / "t.txt").write_text("a\n")
    assert not text_file.accepts(tmp_path / "d.txt")
    assert text_file.accepts(tmp_path / "t.txt")


def test_text_needs_a_tokenizer_and_no_rate(tmp_path):
    path = tmp_path / "t.txt"
    path.write_text("a\n")
    with pytest.raises(UsageError, match="how it becomes token ids is not known"):
        load_feeds(path, text_spec("input_ids"), options=ReadOptions())
    with pytest.raises(UsageError, match="holds text, which has no use for the options of sound"):
        load_feeds(path, text_spec("input_ids"), options=ReadOptions(sound=SoundOptions(rate=1)))
    with pytest.raises(UsageError, match="options of preprocessing are not taken here"):
        load_feeds(path, text_spec("input_ids"))
