"""A ranges file keeps the layer that stays in float."""

import json

import pytest

from qdqtool.errors import UsageError
from qdqtool.quantization.ranges.method_choice import (
    LOUD_LAYER,
    PLANNED,
    LoudLayer,
    encode_choice,
    encode_loud,
    recorded_loud,
)
from qdqtool.quantization.ranges.types import PreparationStep

LAYER = LoudLayer(nodes=(((), ("y",)), (("a.then",), ("z", ""))), noise_share=0.97, macs_share=0.001, weights_share=0.0)


def test_the_layer_is_read_back_from_json():
    step = encode_loud(LAYER)
    stored = PreparationStep(step.step, json.loads(json.dumps(step.parameters)))
    assert recorded_loud([encode_choice("max"), stored]) == LAYER


def test_there_is_none_among_other_steps():
    assert recorded_loud([encode_choice("max")]) is None
    assert {encode_choice("max").step, encode_loud(LAYER).step} == PLANNED


@pytest.mark.parametrize("change", [{"nodes": 3}, {"nodes": [[["a"], "y"]]}, {"noise_share": "much"}])
def test_a_malformed_record_is_refused(change):
    step = PreparationStep(LOUD_LAYER, {**encode_loud(LAYER).parameters, **change})
    with pytest.raises(UsageError, match=f"malformed step '{LOUD_LAYER}'") as error:
        recorded_loud([step])
    assert error.value.hint is not None
