"""Networks of transformers with small configurations."""

import importlib
from collections.abc import Callable, Mapping
from typing import Any

import torch

from benchmarks.networks.network import DYNAMO, SCRIPT, Network, image, normal, tokens

Maker = Callable[[], Any]

SMALL = {"hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 256}
WORDS = {"vocab_size": 1000, "max_position_embeddings": 64}
CAUSAL = {**SMALL, **WORDS, "num_key_value_heads": 2, "use_cache": False}
DISTILBERT = {"dim": 128, "n_layers": 2, "n_heads": 4, "hidden_dim": 256, **WORDS}
T5 = {"d_model": 128, "d_ff": 256, "d_kv": 32, "num_layers": 2, "num_heads": 4, "vocab_size": 1000}
GPT2 = {"n_embd": 128, "n_layer": 2, "n_head": 4, "vocab_size": 1000, "n_positions": 64, "use_cache": False}
MIXTRAL = {**CAUSAL, "num_local_experts": 4, "experts_implementation": "batched_mm"}
SEGFORMER = {"hidden_sizes": [16, 32, 64, 128], "depths": [1, 1, 1, 1], "decoder_hidden_size": 64}
WHISPER = {
    "d_model": 128,
    "encoder_layers": 2,
    "encoder_attention_heads": 4,
    "encoder_ffn_dim": 256,
    "max_source_positions": 50,
}
WAV2VEC2 = {
    **SMALL,
    "conv_dim": (64, 64, 64),
    "conv_stride": (5, 4, 4),
    "conv_kernel": (10, 8, 4),
    "num_feat_extract_layers": 3,
    "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 4,
}
OPEN = {name: {0: "batch", 1: "tokens"} for name in ("input_ids", "attention_mask")}


class _Output(torch.nn.Module):
    """A model by its named arguments, and one entry of what it gives."""

    def __init__(self, model: torch.nn.Module, names: tuple[str, ...], output: str) -> None:
        super().__init__()
        self.model, self.names, self.output = model, names, output

    def forward(self, *given: torch.Tensor) -> torch.Tensor:
        return self.model(**dict(zip(self.names, given, strict=True)), return_dict=True)[self.output]


def _of(kind: str, config: str, options: Mapping[str, Any], *names: str, output: str = "last_hidden_state") -> Maker:
    def make() -> Any:
        import transformers

        known = {"WhisperEncoder": "transformers.models.whisper.modeling_whisper"}
        home = importlib.import_module(known.get(kind, "transformers"))
        model = getattr(home, kind)(getattr(transformers, f"{config}Config")(**options))
        model.set_attn_implementation("eager")
        return _Output(model, names, output)

    return make


def _encoder(name: str, config: str, options: Mapping[str, Any], **more: Any) -> Network:
    make = _of(f"{config}Model", config, options, "input_ids", "attention_mask")
    return Network(name, make, tokens(32, 1000, mask=True), **more)


def _causal(name: str, config: str, options: Mapping[str, Any], kind: str = "") -> Network:
    make = _of(kind or f"{config}ForCausalLM", config, options, "input_ids", output="logits")
    # The older exporter does not know aten::diff, which the masks of these need.
    return Network(name, make, tokens(16, 1000), exporters=(DYNAMO,))


NETWORKS = (
    _encoder("bert", "Bert", {**SMALL, **WORDS}),
    _encoder("bert_open", "Bert", {**SMALL, **WORDS}, dynamic=OPEN, exporters=(SCRIPT,)),
    _encoder("distilbert", "DistilBert", DISTILBERT),
    _encoder("albert", "Albert", {**SMALL, **WORDS, "embedding_size": 64}),
    _encoder("electra", "Electra", {**SMALL, **WORDS}),
    Network("t5_encoder", _of("T5EncoderModel", "T5", T5, "input_ids"), tokens(32, 1000)),
    _causal("gpt2", "GPT2", GPT2, "GPT2LMHeadModel"),
    _causal("llama", "Llama", CAUSAL),
    _causal("qwen3", "Qwen3", {**CAUSAL, "head_dim": 32}),
    _causal("gemma2", "Gemma2", {**CAUSAL, "head_dim": 32}),
    _causal("mixtral", "Mixtral", MIXTRAL),
    Network(
        "clip_vision",
        _of("CLIPVisionModel", "CLIPVision", {**SMALL, "image_size": 64, "patch_size": 16}, "pixel_values"),
        image(64, name="pixel_values"),
    ),
    Network(
        "segformer",
        _of("SegformerForSemanticSegmentation", "Segformer", SEGFORMER, "pixel_values", output="logits"),
        image(64, name="pixel_values"),
    ),
    Network(
        "whisper_encoder",
        _of("WhisperEncoder", "Whisper", WHISPER, "input_features"),
        normal(input_features=(1, 80, 100)),
    ),
    Network("wav2vec2", _of("Wav2Vec2Model", "Wav2Vec2", WAV2VEC2, "input_values"), normal(input_values=(1, 4000))),
)
