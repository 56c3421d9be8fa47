"""The note in a quantized model on its calibration: written, read back, and what is no note."""

import json

import pytest
from support.pictures import preprocessing
from support.small import conv_model

from qdqtool.models.graph.io.metadata import CALIBRATION_KEY
from qdqtool.models.graph.model import Model
from qdqtool.samples.calibration_note import CalibrationNote, decode_note, encode_note, read_note

ARRAYS = CalibrationNote(method="max", samples=3, random=True, seed=7)


@pytest.mark.parametrize(
    "note",
    [
        ARRAYS,
        CalibrationNote(
            method="auto",
            samples=1,
            random=False,
            seed=None,
            preprocessing=preprocessing((4, 6), pad_color=(1, 2, 3), resize="letterbox", mean=(0.1, 0.2, 0.3)),
        ),
    ],
)
def test_what_is_written_is_read(note: CalibrationNote) -> None:
    proto = conv_model()
    (text,) = encode_note(note).values()
    proto.metadata_props.add(key=CALIBRATION_KEY, value=text)
    assert read_note(Model(proto)) == note


def test_without_images_the_note_has_the_keys_of_earlier_versions() -> None:
    (text,) = encode_note(ARRAYS).values()
    assert text is not None
    assert json.loads(text) == {"method": "max", "samples": 3, "random": True, "seed": 7}


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"method": 3, "samples": 1, "random": true, "seed": null}'])
def test_what_qdqtool_did_not_write_is_no_note(text: str) -> None:
    assert decode_note(text) is None


def test_a_model_without_a_note() -> None:
    assert read_note(Model(conv_model())) is None
