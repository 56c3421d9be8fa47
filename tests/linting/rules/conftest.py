"""TensorRT as the judge of what the rules say."""

from collections.abc import Iterator

import pytest
from support.trt_verdict import TrtOracle


@pytest.fixture(scope="module")
def oracle() -> Iterator[TrtOracle]:
    """TensorRT in a process that the tests of a module share."""
    oracle = TrtOracle()
    yield oracle
    oracle.close()
