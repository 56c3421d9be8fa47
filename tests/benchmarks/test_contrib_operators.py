"""The table of contrib operators: every operator is in it, and no refusal is the fault of a model."""

from pathlib import Path

import pytest
from onnxruntime.capi import onnxruntime_pybind11_state as state
from support.paths import ROOT

from benchmarks.contrib import DOMAIN, FLOATS, variants
from benchmarks.contrib_operators import NO_TYPE, Bench, has_kernel, rows
from qdqtool.engines.tensorrt.parser_errors import translate

SCHEMAS = {each.name: each for each in state.get_all_operator_schema() if each.domain == DOMAIN}
PAGE = (ROOT / "docs/developers/contrib_operators.md").read_text()
ASKED = {
    ("MultiHeadAttention", "queries, keys and values"): "built",
    ("MultiHeadAttention", "with a bias"): "MultiHeadAttention bias input is not supported by TensorRT-RTX.",
    ("GroupQueryAttention", "with scale"): "needs a plugin",
    ("SkipSimplifiedLayerNormalization", "with the sum as output"): "built",
}


def test_every_operator_is_on_the_page():
    missing = [name for name in SCHEMAS if f"`{name}`" not in PAGE]
    assert missing == []
    assert {variant.op_type for variant in variants()} <= SCHEMAS.keys()


def test_onnx_runtime_loads_the_models_or_has_no_kernel():
    models = [variant.model(SCHEMAS[variant.op_type], "float32") for variant in variants()]
    kernels = [has_kernel(model) for model in models if model is not None]
    assert sum(kernels) > len(kernels) / 2


def test_a_type_that_the_schema_lacks_has_no_model():
    [variant] = [each for each in variants() if each.op_type == "GemmaRotaryEmbedding"]
    models = [variant.model(SCHEMAS[variant.op_type], each) for each in FLOATS]
    assert [model is not None for model in models] == [False, True, False]


EXPLAINED = {
    ("Attention", "projections inside"): "`qdqtool normalize",
    ("GroupQueryAttention", "with scale"): "`qdqtool normalize",
    ("GroupQueryAttention", "without scale"): "`qdqtool normalize",
    ("MatMulNBits", "4 bits"): "`qdqtool normalize",
    ("MultiHeadAttention", "with a bias"): "`qdqtool normalize",
    ("MultiHeadAttention", "with past keys and values"): "`qdqtool normalize",
    ("MultiHeadAttention", "packed keys and values"): "`qdqtool normalize",
    ("SkipSimplifiedLayerNormalization", "with the mean as output"): "remove these outputs",
}
"""A part of the hint for models that are refused."""


@pytest.mark.builder
def test_refusals_of_known_names_are_explained(tmp_path: Path):
    bench = Bench(tmp_path)
    asked = [each for each in variants() if (each.op_type, each.words) in EXPLAINED]
    assert len(asked) == len(EXPLAINED)
    for variant in asked:
        model = variant.model(SCHEMAS[variant.op_type], "float32")
        assert model is not None
        refusal = translate(bench.ask(model), op_type=variant.op_type)
        assert refusal.explained, variant
        assert EXPLAINED[variant.op_type, variant.words] in (refusal.hint or ""), variant
    bench.stop()


@pytest.mark.builder
def test_the_page_has_what_the_builder_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    chosen = [each for each in variants() if (each.op_type, each.words) in ASKED]
    monkeypatch.setattr("benchmarks.contrib_operators.variants", lambda: chosen)
    bench = Bench(tmp_path)
    found = {(row.variant.op_type, row.variant.words): row.answers for row in rows(bench, SCHEMAS)}
    bench.stop()
    assert {key: {*answers} - {NO_TYPE} for key, answers in found.items()} == {k: {v} for k, v in ASKED.items()}
    for (op_type, words), answers in found.items():
        assert f"| `{op_type}` | {words} | {' | '.join(answers)} |" in PAGE
