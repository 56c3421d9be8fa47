"""A small tokenizer and inputs that take text."""

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing

from qdqtool.samples.signature import InputSpec

I64 = np.dtype(np.int64)
WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "cat", "sat", "on", "mat")
"""The vocabulary; a token's id is its position."""


def save_tokenizer(path: Path, words: tuple[str, ...] = WORDS, pad: str | None = None) -> Path:
    """Write a tokenizer of whole words that puts [CLS] and [SEP] around each line."""
    vocabulary = {word: number for number, word in enumerate(words)}
    tokenizer = Tokenizer(WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    ends = [("[CLS]", vocabulary["[CLS]"]), ("[SEP]", vocabulary["[SEP]"])]
    tokenizer.post_processor = TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=ends)
    if pad is not None:
        tokenizer.enable_padding(direction="left", pad_id=vocabulary[pad], pad_token=pad)
    tokenizer.save(str(path))
    return path


def text_spec(
    *names: str, shape: tuple[int | str | None, ...] = (1, 6), dtype: np.dtype[np.generic] = I64
) -> tuple[InputSpec, ...]:
    """Inputs with these names."""
    return tuple(InputSpec(name, dtype, shape) for name in names)


def save_lines(path: Path, count: int = 40) -> Path:
    """Write lines of one to five words."""
    rng = np.random.default_rng(0)
    path.write_text("".join(" ".join(rng.permutation(WORDS[4:])[: 1 + number % 5]) + "\n" for number in range(count)))
    return path


def text_net() -> onnx.ModelProto:
    """Token ids and mask of open lengths -> embedding of the vocabulary -> MatMul -> y[batch, tokens, 32]."""
    rng = np.random.default_rng(0)
    weights = {"table": rng.normal(size=(len(WORDS), 32)), "w": rng.normal(size=(32, 32))}
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["e"]),
        helper.make_node("Cast", ["attention_mask"], ["m"], to=TensorProto.FLOAT),
        helper.make_node("Unsqueeze", ["m", "last"], ["m3"]),
        helper.make_node("Mul", ["e", "m3"], ["h"]),
        helper.make_node("MatMul", ["h", "w"], ["y"], name="mm"),
    ]
    ids = ("input_ids", "attention_mask")
    stored = [onnx.numpy_helper.from_array(value.astype(np.float32), name) for name, value in weights.items()]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "tokens"]) for name in ids],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", "tokens", 32])],
        [*stored, onnx.numpy_helper.from_array(np.array([-1]), "last")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
