"""QN501: the note of a model that random data calibrated; any other note says nothing."""

import pytest
from support.one_rule import messages, parsed


@pytest.mark.parametrize(
    ("note", "reported"),
    [
        (None, False),
        ('{"random": true}', True),
        ('{"random": true, "samples": 3}', True),
        ('{"random": false}', False),
        ('{"random": 1}', False),
        ('{"samples": 3}', False),
        ('["random"]', False),
        ("null", False),
        ("random", False),
        ("", False),
    ],
)
def test_notes(note: str | None, reported: bool):
    model = parsed("agraph (float[2] x) => (float[2] y) { y = Relu (x) }")
    if note is not None:
        model.metadata_props.add(key="qdqtool.calibration", value=note)

    assert messages("QN501", model) == ["the model was calibrated with random data"] * reported
