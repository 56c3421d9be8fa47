"""Placement on whole networks: every weighted operator is quantized on both sides or skipped with a reason."""

from collections import Counter

import onnx
import pytest
from support.networks import gpt
from support.paths import ROOT
from support.placed import place, proposal

from qdqtool.jobs.inspect import inspect_model
from qdqtool.jobs.validate import validate_model
from qdqtool.models import ops
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.io.load import load_model
from qdqtool.models.graph.model import Model
from qdqtool.models.transforms.batchnorm import fold_batchnorm

SAMPLES = ROOT / "sample_models"

COUNTS = {
    "digits_cnn": {"activation": 8, "weight": 8},
    "digits_transformer": {"activation": 16, "weight": 12},
    "char_lm": {"activation": 33, "weight": 25},
    "face_slim_320": {"activation": 35, "weight": 42},
    "face_slim_320_unfolded_opset9": {"activation": 35, "weight": 42},
    "magika_fast_v2_1": {"activation": 3, "weight": 3},
    "silero_vad_16k_op15": {"activation": 6, "weight": 6},
    "yunet_n_dynamic": {"activation": 44, "weight": 53},
}
"""Slots by network: one for each stored weight, one for each tensor that weighted operators read."""


def sample(name: str) -> onnx.ModelProto:
    return onnx.load(SAMPLES / name / "model.onnx")


def assert_sensible(model: Model, name: str) -> None:
    found = proposal(model)
    assert Counter(slot.kind for slot in found.slots) == COUNTS[name]
    assert all(node.reason.text for node in found.skipped)
    assert_no_side_alone(model)


def assert_no_side_alone(model: Model) -> None:
    """Every weighted operator has both operands quantized, or is skipped; weights are followed through Transposes."""
    found = proposal(model)
    index = ModelIndex.of(model)
    claimed = {(ref.scope, ref.node, ref.index) for slot in found.slots for ref in slot.slot.uses or ()}
    skipped = {(node.graph, node.node) for node in found.skipped}

    def is_quantized(node, position):
        if (node.scope.path, node.key, position) in claimed:
            return True
        value = node.input(position)
        maker = value.producer if index.constants.is_constant(value) else None
        return maker is not None and maker.is_op("Transpose", "Identity") and is_quantized(maker, 0)

    judged = 0
    for node in index.view.nodes():
        family = ops.product(node)
        if family is not None and index.types.elem_type(node.input(0)) == onnx.TensorProto.FLOAT:
            sides = {is_quantized(node, position) for position in family.quantized_inputs(node)}
            assert sides == ({False} if ("/".join(node.scope.path), node.label) in skipped else {True}), node.label
            judged += 1
    assert judged > 0


@pytest.mark.parametrize("name", ["digits_cnn", "digits_transformer", "char_lm"])
def test_sample_networks(name):
    assert_sensible(Model(sample(name)), name)


@pytest.mark.parametrize("name", ["digits_cnn", "digits_transformer", "char_lm"])
def test_what_is_placed_passes_our_own_linter(name, tmp_path):
    place(sample(name), tmp_path)
    report = validate_model(tmp_path / "placed.onnx", ["onnx", "ort-cpu", "tensorrt", "tensorrt-rtx"])
    assert report.findings == ()


def test_the_language_model_keeps_its_masked_scores_in_float():
    model = sample("char_lm")
    found = proposal(model)
    masks = [node for node in found.skipped if node.reason.code == "attention-mask"]
    assert len(masks) == 4
    ends = ("scores.out", "scale.out", "mask.out")
    masked = {name for node in model.graph.node for name in node.output if name.endswith(ends)}
    assert len(masked) == 4 * len(ends)
    assert masked.isdisjoint(slot.slot.tensor for slot in found.slots)


@pytest.mark.real
def test_real_networks(real_model):
    folded = fold_batchnorm(load_model(real_model)).model
    assert_sensible(folded, real_model.stem)


def test_inspect_sees_a_quantized_weight_behind_a_transpose(tmp_path):
    place(gpt(), tmp_path)  # the last layer's weight is the table of embeddings, transposed
    (products,) = inspect_model(tmp_path / "placed.onnx").coverage
    assert (products.op_type, products.total, products.quantized) == ("MatMul", 17, 17)
