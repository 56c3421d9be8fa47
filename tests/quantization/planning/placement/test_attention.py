"""Attention in all the forms that exporters write: placement makes each of them one kernel that reads codes."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from support.engine_models import Net
from support.layer_dump import kernels_of, multiplied_types
from support.placed import place

pytestmark = pytest.mark.builder

TOKENS, HEADS, HEAD = 64, 2, 64
WIDTH = HEADS * HEAD
CODES = {"int8": "Int8", "float8e4m3fn": "FP8"}


class Layer:
    """One attention layer; subclasses write parts of it as one exporter or architecture does.

    Args:
        half: Whether tensors are float16.
    """

    key_heads = HEADS

    def __init__(self, *, half: bool) -> None:
        self.dtype = np.float16 if half else np.float32
        self.net = Net(18)
        self.inputs: dict[str, tuple[int, ...]] = {"x": (1, TOKENS, WIDTH)}
        self._random = np.random.default_rng(2)

    def model(self) -> onnx.ModelProto:
        query, key, value = (self.project(name) for name in "qkv")
        key = self.net.op("Transpose", [key], "k_turned", perm=[0, 1, 3, 2])
        weights = self.softmax(self.scores(query, key))
        mixed = self.net.op("Transpose", [self.net.op("MatMul", [weights, value], "mixed")], "back", perm=[0, 2, 1, 3])
        self.net.constant("width", np.array([1, TOKENS, WIDTH]))
        joined = self.net.op("Reshape", [mixed, "width"], "joined")
        self.net.op("MatMul", [joined, self.constant("wo", (WIDTH, WIDTH))], "y")
        model = self.net.model(self.inputs)
        for each in (*model.graph.input, *model.graph.output):
            each.type.tensor_type.elem_type = helper.np_dtype_to_tensor_dtype(np.dtype(self.dtype))
        return onnx.shape_inference.infer_shapes(model)

    def constant(self, name: str, shape: tuple[int, ...]) -> str:
        return self.net.constant(name, self._random.normal(0, 0.1, shape).astype(self.dtype))

    def number(self, name: str, value: float) -> str:
        return self.net.constant(name, self.dtype(value))

    def project(self, name: str) -> str:
        heads = HEADS if name == "q" else self.key_heads
        rows = self.net.op("MatMul", ["x", self.constant(f"w{name}", (WIDTH, heads * HEAD))], f"{name}_rows")
        self.net.constant(f"{name}_shape", np.array([1, TOKENS, heads, HEAD]))
        split = self.net.op("Reshape", [rows, f"{name}_shape"], f"{name}_split")
        return self.net.op("Transpose", [split], f"{name}_heads", perm=[0, 2, 1, 3])

    def scores(self, query: str, key: str) -> str:
        return self.net.op(
            "Div", [self.net.op("MatMul", [query, key], "scores"), self.number("root", HEAD**0.5)], "scaled"
        )

    def softmax(self, scores: str) -> str:
        return self.net.op("Softmax", [scores], "weights", axis=-1)


class ScaledOperands(Layer):
    """torch: queries and keys are each multiplied by the fourth root before they meet."""

    def scores(self, query: str, key: str) -> str:
        factor = self.number("root", HEAD**-0.25)
        query, key = (self.net.op("Mul", [each, factor], f"{each}_scaled") for each in (query, key))
        return self.net.op("MatMul", [query, key], "scores")


class MaskedByInput(Layer):
    """The caller gives a mask to add."""

    def softmax(self, scores: str) -> str:
        self.inputs["mask"] = (1, 1, TOKENS, TOKENS)
        return super().softmax(self.net.op("Add", [scores, "mask"], "masked"))


class CausalByWhere(Layer):
    """Later tokens are hidden by Where."""

    def softmax(self, scores: str) -> str:
        self.net.constant("visible", np.tri(TOKENS, dtype=bool))
        low = self.number("low", float(np.finfo(self.dtype).min))
        return super().softmax(self.net.op("Where", ["visible", scores, low], "masked"))


class WideSoftmax(Layer):
    """The Softmax is computed in float32, between Casts."""

    def softmax(self, scores: str) -> str:
        wide = self.net.op("Softmax", [self.net.op("Cast", [scores], "wide", to=TensorProto.FLOAT)], "wide_weights")
        return self.net.op("Cast", [wide], "weights", to=helper.np_dtype_to_tensor_dtype(np.dtype(self.dtype)))


class SharedKeys(Layer):
    """Several heads of queries share one of keys and values."""

    key_heads = 1

    def project(self, name: str) -> str:
        heads = super().project(name)
        if name == "q":
            return heads
        self.net.constant(f"{name}_repeated", np.array([1, HEADS, TOKENS, HEAD]))
        return self.net.op("Expand", [heads, f"{name}_repeated"], f"{name}_all")


class Rotated(Layer):
    """Rotary positions: halves of queries and keys change places, and both are weighted and added."""

    def project(self, name: str) -> str:
        heads = super().project(name)
        if name == "v":
            return heads
        net, first, second = self.net, f"{name}_first", f"{name}_second"
        net.constant(f"{name}_halves", np.array([HEAD // 2] * 2))
        net.nodes.append(
            helper.make_node("Split", [heads, f"{name}_halves"], [first, second], f"{name}.Split", axis=-1)
        )
        swapped = net.op("Concat", [net.op("Neg", [second], f"{name}_negative"), first], f"{name}_swapped", axis=-1)
        shape = (1, 1, TOKENS, HEAD)
        straight = net.op("Mul", [heads, self.constant(f"{name}_cosine", shape)], f"{name}_straight")
        across = net.op("Mul", [swapped, self.constant(f"{name}_sine", shape)], f"{name}_across")
        return net.op("Add", [straight, across], f"{name}_rotated")


class Cached(Layer):
    """Keys and values of earlier tokens come from a cache."""

    def project(self, name: str) -> str:
        heads = super().project(name)
        if name == "q":
            return heads
        self.inputs[f"past_{name}"] = (1, HEADS, 32, HEAD)
        return self.net.op("Concat", [f"past_{name}", heads], f"{name}_joined", axis=2)


FORMS = (Layer, *Layer.__subclasses__())


@pytest.mark.parametrize("number_format", CODES)
@pytest.mark.parametrize(
    ("form", "half"), [*((form, False) for form in FORMS), (Layer, True), (WideSoftmax, True), (MaskedByInput, True)]
)
def test_it_is_one_kernel_that_reads_codes(form, half, number_format, oracle, tmp_path):
    verdict = oracle.judge(place(form(half=half).model(), tmp_path, number_format=number_format), (89,))
    assert verdict.accepted, verdict.message
    (fused,) = kernels_of(verdict.layers, "scores.MatMul", "_gemm_mha")
    assert kernels_of(verdict.layers, "mixed.MatMul", "_gemm_mha") == [fused]
    mask = {"Half" if half else "Float"} if form is MaskedByInput else set()
    assert multiplied_types(verdict.layers, "scores.MatMul") == {CODES[number_format]} | mask
