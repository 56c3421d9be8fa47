"""Errors that are expected word for word."""

from collections.abc import Iterator
from contextlib import contextmanager
from types import EllipsisType

import pytest

from qdqtool.errors import QdqError


@contextmanager
def refused(error: type[QdqError], message: str, hint: str | EllipsisType | None = ...) -> Iterator[None]:
    """Expect an error with this message, and with this hint unless it is left out."""
    with pytest.raises(error) as caught:
        yield
    assert caught.value.message == message
    if hint is not ...:
        assert caught.value.hint == hint
