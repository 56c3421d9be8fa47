"""Words that messages share."""

import pytest

from qdqtool.errors import plural


@pytest.mark.parametrize(("count", "text"), [(0, "0 nodes"), (1, "1 node"), (2, "2 nodes")])
def test_a_noun_has_its_number(count: int, text: str):
    assert plural(count, "node") == text
