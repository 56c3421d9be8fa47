"""The trained samples are what their README says: valid, readable, small and good at their task."""

import tomllib

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator
from support.paths import ROOT

from qdqtool.models.graph.io.load import load_model
from qdqtool.samples.feeds import load_feeds
from qdqtool.samples.signature import input_specs

SAMPLES = ROOT / "sample_models"
TRAINED = ["digits_cnn", "digits_transformer", "digits_depthwise", "char_lm"]
DIGITS = ["digits_cnn", "digits_transformer", "digits_depthwise"]
CNN = SAMPLES / "digits_cnn"
BUDGET_BYTES = 5_000_000


def load(sample: str) -> onnx.ModelProto:
    return onnx.load(SAMPLES / sample / "model.onnx")


def arrays(sample: str, name: str) -> dict[str, np.ndarray]:
    with np.load(SAMPLES / sample / name, allow_pickle=False) as stored:
        return dict(stored)


def row_of(sample: str) -> str:
    """The line of the README about a sample."""
    lines = (SAMPLES / "README.md").read_text(encoding="utf-8").splitlines()
    return next(line for line in lines if line.startswith(f"| `{sample}/`"))


def logits(sample: str) -> tuple[np.ndarray, np.ndarray]:
    data = arrays(sample, "test.npz")
    labels = data.pop("labels")
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(SAMPLES / sample / "model.onnx", options, ["CPUExecutionProvider"])
    return session.run(None, data)[0], labels


@pytest.mark.parametrize("sample", DIGITS)
def test_the_test_digits_are_recognized_as_often_as_the_readme_says(sample):
    scores, labels = logits(sample)
    assert len(labels) == 540
    share = 100 * np.mean(scores.argmax(axis=1) == labels)
    assert f"| {share:.2f} %" in row_of(sample)
    assert share >= 97


def test_the_language_model_predicts_text_it_has_not_seen():
    scores, labels = logits("char_lm")
    top = scores.max(axis=-1, keepdims=True)
    log_sum = np.log(np.exp(scores - top).sum(axis=-1)) + top[..., 0]
    chosen = np.take_along_axis(scores, labels[..., None], axis=-1)[..., 0]
    perplexity = np.exp(np.mean(log_sum - chosen))
    assert f"| perplexity {perplexity:.2f} " in row_of("char_lm")
    assert perplexity < 4.0


def test_the_language_model_has_about_half_a_million_parameters():
    floats = [t for t in load("char_lm").graph.initializer if t.data_type == onnx.TensorProto.FLOAT]
    weights = [t for t in floats if t.name != "causal_mask"]
    assert 400_000 < sum(int(np.prod(tensor.dims)) for tensor in weights) < 600_000


def test_the_language_model_masks_the_future_by_adding_minus_ten_thousand():
    graph = load("char_lm").graph
    mask = next(numpy_helper.to_array(t)[0, 0] for t in graph.initializer if t.name == "causal_mask")
    assert np.array_equal(mask, np.triu(np.full_like(mask, -1e4), k=1))
    assert sum(node.op_type == "Add" and "causal_mask" in node.input for node in graph.node) == 4


def test_changing_a_later_character_changes_no_earlier_prediction():
    tokens = arrays("char_lm", "test.npz")["tokens"][:1]
    changed = tokens.copy()
    changed[0, 40:] = 7
    session = onnxruntime.InferenceSession(SAMPLES / "char_lm" / "model.onnx", providers=["CPUExecutionProvider"])
    before, after = (session.run(None, {"tokens": each})[0] for each in (tokens, changed))
    assert np.array_equal(before[0, :40], after[0, :40])
    assert not np.allclose(before[0, 40:], after[0, 40:])


@pytest.mark.parametrize("sample", TRAINED)
def test_the_model_is_valid_opset_17_onnx_with_a_free_batch_size(sample):
    model = load(sample)
    onnx.checker.check_model(model, full_check=True)
    assert [(entry.domain, entry.version) for entry in model.opset_import] == [("", 17)]
    assert model.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "batch"
    assert "BatchNormalization" not in {node.op_type for node in model.graph.node}


@pytest.mark.parametrize("sample", TRAINED)
def test_every_node_has_a_name_and_gives_it_to_its_output(sample):
    nodes = load(sample).graph.node
    names = [node.name for node in nodes]
    assert all(names)
    assert len(set(names)) == len(names)
    assert all(list(node.output) == [f"{node.name}.out"] for node in nodes[:-1])
    assert list(nodes[-1].output) == ["logits"]


@pytest.mark.parametrize("sample", TRAINED)
def test_data_files_are_keyed_by_the_input_and_share_no_sample(sample):
    name = load(sample).graph.input[0].name
    test, calibration = arrays(sample, "test.npz"), arrays(sample, "calibration.npz")
    assert set(test) == {name, "labels"}
    assert set(calibration) == {name}
    seen = {each.tobytes() for each in calibration[name]}
    assert not seen & {each.tobytes() for each in test[name]}


def test_everything_the_generators_wrote_stays_within_five_megabytes():
    written = [path for path in SAMPLES.rglob("*") if path.suffix in {".onnx", ".npz", ".toml"}]
    assert len(written) > 20
    assert sum(path.stat().st_size for path in written) <= BUDGET_BYTES


@pytest.fixture(scope="module")
def plan() -> dict[str, dict]:
    document = tomllib.loads((CNN / "plan.toml").read_text(encoding="utf-8"))
    assert document["schema_version"] == 1
    entries = {entry["tensor"]: entry for entry in document["tensors"]}
    assert len(entries) == len(document["tensors"]), "a tensor is named twice"
    return entries


@pytest.fixture(scope="module")
def weighted_nodes() -> list[onnx.NodeProto]:
    return [node for node in load("digits_cnn").graph.node if node.op_type in {"Conv", "Gemm"}]


def test_the_plan_names_both_inputs_of_every_conv_and_gemm_and_nothing_else(plan, weighted_nodes):
    assert len(weighted_nodes) == 9
    assert set(plan) == {name for node in weighted_nodes for name in node.input[:2]}
    assert {entry["format"] for entry in plan.values()} == {"int8"}
    assert all(entry["reason"] for entry in plan.values())


def test_the_skip_input_of_every_residual_add_is_quantized_and_the_other_is_not(plan):
    adds = [node for node in load("digits_cnn").graph.node if node.op_type == "Add"]
    assert len(adds) == 3
    for add in adds:
        branch, skip = add.input
        assert skip in plan
        assert branch not in plan


def test_weight_scales_are_the_largest_magnitude_of_each_output_channel_over_127(plan, weighted_nodes):
    stored = arrays("digits_cnn", "scales.npz")
    weights = {t.name: numpy_helper.to_array(t) for t in load("digits_cnn").graph.initializer}
    for node in weighted_nodes:
        name = node.input[1]
        assert plan[name]["axis"] == 0
        assert plan[name]["scale"] == {"file": "scales.npz", "key": name}
        assert stored[name].dtype == np.float32
        largest = [np.float32(np.abs(channel).max()) for channel in weights[name]]
        assert stored[name].tolist() == [value / np.float32(127) for value in largest]


def test_activation_scales_are_the_largest_magnitude_on_the_calibration_images_over_127(plan, weighted_nodes):
    images = arrays("digits_cnn", "calibration.npz")["image"]
    model = load("digits_cnn")
    inner = [node.input[0] for node in weighted_nodes if node.input[0] != "image"]
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in inner)
    values = dict(zip(inner, ReferenceEvaluator(model).run(inner, {"image": images}), strict=True))
    for name, value in (("image", images), *values.items()):
        # another evaluator sums in another order: 20 roundings of float32 on values that do not cancel
        assert plan[name]["scale"] == pytest.approx(float(np.abs(value).max()) / 127, rel=20 * 2**-24)
        assert "axis" not in plan[name]


@pytest.mark.parametrize("sample", TRAINED)
def test_the_test_data_can_be_fed_as_it_is_although_it_holds_labels(sample):
    inputs = arrays(sample, "test.npz")
    inputs.pop("labels")
    (name,) = inputs
    specs = input_specs(load_model(SAMPLES / sample / "model.onnx"))
    feeds = load_feeds(SAMPLES / sample / "test.npz", specs)
    assert len(feeds) == len(inputs[name])
    assert np.array_equal(np.concatenate([feed[name] for feed in feeds]), inputs[name])
