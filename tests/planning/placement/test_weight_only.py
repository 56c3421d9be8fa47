"""Block sizes that fit an axis, against a search through all of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qdqtool import targets
from qdqtool.planning.placement.weight_only import fitting_block

WHOLE = targets.get("tensorrt")
ANY = next(target for target in map(targets.get, targets.names()) if not target.whole_blocks)


@given(st.integers(1, 600), st.sampled_from([16, 32, 48, 64, 128, 256]))
def test_the_largest_half_of_the_asked_size_with_two_whole_blocks_is_taken(extent: int, asked: int) -> None:
    halves = [asked // 2**power for power in range(10) if asked // 2**power >= 16]
    fitting = [size for size in halves if extent % size == 0 and extent >= 2 * size]
    assert fitting_block(extent, asked, WHOLE) == max(fitting, default=None)


@given(st.integers(1, 600), st.sampled_from([16, 128]))
def test_a_target_that_takes_a_shorter_last_block_gets_the_asked_size(extent: int, asked: int) -> None:
    assert fitting_block(extent, asked, ANY) == asked


@pytest.mark.parametrize(("extent", "size"), [(32, 16), (16, None), (31, None), (48, 16), (64, 32), (256, 128)])
def test_examples_of_128(extent: int, size: int | None) -> None:
    assert fitting_block(extent, 128, WHOLE) == size
