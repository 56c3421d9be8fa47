"""Which inputs a tokenizer fills, and what is taken from the model or asked for."""

import numpy as np
import pytest
from support.texts import text_spec

from qdqtool.errors import UsageError
from qdqtool.samples.media.text.samples import length_of, text_inputs
from qdqtool.samples.media_options import TextOptions

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
