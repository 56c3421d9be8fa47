"""Models with contrib operators, from ONNX Runtime's optimizer or onnxruntime-genai to an engine."""

from collections import Counter
from pathlib import Path

import onnx
import pytest
from support.contrib_models import (
    decoder_data,
    encoder,
    encoder_data,
    fused,
    genai_data,
    genai_decoder,
    two_way_decoder,
)

import qdqtool as qdq

SLOW = pytest.mark.slow(reason="from a fused model to an engine")


def contrib(path: Path) -> Counter[str]:
    return Counter(node.op_type for node in onnx.load(path).graph.node if node.domain == "com.microsoft")


@SLOW
@pytest.mark.builder
@pytest.mark.parametrize("name", ["encoder", "decoder"])
def test_a_fused_model_is_quantized_around_its_attention_and_built(name: str, tmp_path: Path):
    is_encoder = name == "encoder"
    model = fused(encoder(), "bert") if is_encoder else fused(two_way_decoder(), "sam2")
    start, normal, quantized = (tmp_path / f"{each}.onnx" for each in ("start", "normal", "quantized"))
    onnx.save(model, start)
    before = contrib(start)
    assert before["Attention" if is_encoder else "MultiHeadAttention"] == (2 if is_encoder else 3)
    data = encoder_data() if is_encoder else decoder_data()

    report = qdq.normalize_model(start, normal, data=data)
    assert report.repaired.refused == ()
    assert contrib(normal) == ({} if is_encoder else {"MultiHeadAttention": 3, "Gelu": 1})

    made = qdq.quantize_model(normal, data, quantized, target="tensorrt-rtx")
    assert made.high_precision is not None
    assert made.high_precision.kept == ()
    checked = qdq.check_model(quantized, baseline=start, data=data)
    assert checked.passed
    engine = qdq.build_engine(quantized, tmp_path / "e.engine", backend="tensorrt-rtx")
    assert engine.achieved == engine.planned == {"int8": 16}


@SLOW
@pytest.mark.builder
def test_a_decoder_of_onnxruntime_genai_runs_in_int4_kernels(tmp_path: Path):
    start, normal, half = (tmp_path / f"{each}.onnx" for each in ("start", "normal", "half"))
    onnx.save(genai_decoder(), start)
    report = qdq.normalize_model(start, normal, data=genai_data())
    assert report.repaired.refused == ()
    # ONNX Runtime and TensorRT both have these.
    assert contrib(normal) == {"RotaryEmbedding": 4, "SkipSimplifiedLayerNormalization": 4}
    assert all(output.sqnr_db is None or output.sqnr_db > 110 for output in report.repaired.outputs)

    cast = qdq.cast_model(normal, genai_data(), half, to="fp16")
    assert cast.high_precision.kept == ()
    engine = qdq.build_engine(half, tmp_path / "e.engine", backend="tensorrt-rtx")
    assert engine.planned == {"int4-weight-only": 15}
    # TensorRT computes the output projection behind each attention in float16.
    assert engine.achieved["int4-weight-only"] >= 13
