"""A ranges file keeps the layer that stays in float."""

import json

import pytest

from qdqtool.errors import UsageError
from qdqtool.quantization.ranges.method_choice import (
    DOMINANT_LAYER,
    PLANNED,
    DominantLayer,
    encode_choice,
    encode_dominant,
    recorded_dominant,
)
from qdqtool.quantization.ranges.types import PreparationStep

LAYER = DominantLayer(
    nodes=(((), ("y",)), (("a.then",), ("z", ""))), noise_share=0.97, macs_share=0.001, weights_share=0.0
)


def test_the_layer_is_read_back_from_json():
    step = encode_dominant(LAYER)
    stored = PreparationStep(step.step, json.loads(json.dumps(step.parameters)))
    assert recorded_dominant([encode_choice("max"), stored]) == LAYER


def test_there_is_none_among_other_steps():
    assert recorded_dominant([encode_choice("max")]) is None
    assert {encode_choice("max").step, encode_dominant(LAYER).step} == PLANNED


@pytest.mark.parametrize("change", [{"nodes": 3}, {"nodes": [[["a"], "y"]]}, {"noise_share": "much"}])
def test_a_malformed_record_is_refused(change):
    step = PreparationStep(DOMINANT_LAYER, {**encode_dominant(LAYER).parameters, **change})
    with pytest.raises(UsageError, match=f"malformed step '{DOMINANT_LAYER}'") as error:
        recorded_dominant([step])
    assert error.value.hint is not None
