"""Sizes and kinds of the tensors and kernels of a layer dump."""

import json

import pytest
from support.kernels import typed_kernel
from support.printed_json import faults

from qdqtool.engines.tensorrt.kernels import Kernel, KernelTensor, encode_layers, is_quantized


@pytest.mark.parametrize(
    ("kind", "shape", "size"),
    [
        ("float32", (1, 16, 8, 8), 4096),
        ("float16", (3,), 6),
        ("int8", (16, 4, 3, 3), 576),
        ("int4", (3, 3), 5),
        ("float4e2m1", (2, 2), 2),
        ("int64", (), 8),
        ("int8", (0, 4), 0),
        ("int8", (None, 4), None),
        ("int8", None, None),
        ("unknown", (2,), None),
    ],
)
def test_bytes_are_elements_times_the_size_of_the_type(kind, shape, size):
    assert KernelTensor("t", kind, shape).bytes == size


@pytest.mark.parametrize(
    ("kind", "shape", "multiplied"),
    [
        ("int8", (16, 16, 3, 3), True),
        ("int8", (1, 16), True),
        ("int8", (16,), False),
        ("float32", (64, 10), True),
        ("float32", (1, 16, 1, 1), False),
        ("float16", (1, 32), False),
        ("float32", (1,), False),
        ("float32", None, True),
    ],
)
def test_scales_and_biases_are_no_weights(kind, shape, multiplied):
    assert Kernel(name="k", layer_type="gemm", constants=(KernelTensor("c", kind, shape),)).weight_types == (
        (kind,) if multiplied else ()
    )


@pytest.mark.parametrize(
    ("tactic", "generated"),
    [
        ("__myl_MulMinMaxRounCast_0x556ec07b6a3dc88e6bdeda1ccbf76616", True),
        ("_gemm_mha_v2_0x176c3e1db79032e292dc6d239729e906", True),
        ("__myelin_CASK_STUB", False),
        ("", False),
        ("__myl_Mul_0x556ec07b", False),
    ],
)
def test_a_kernel_is_generated_where_its_tactic_ends_with_a_hash(tactic, generated):
    assert Kernel(name="k", layer_type="kgen", tactic=tactic).is_generated is generated


@pytest.mark.parametrize("kind", ["float32", "float16", "bfloat16", "bool", "int32", "int64"])
def test_floats_masks_and_indices_are_no_codes(kind):
    assert not is_quantized(kind)
    assert is_quantized("int8")


def test_the_keys_of_the_layer_file():
    kernel = typed_kernel(name="k", layer_type="gemm", inputs=["int8"], constants=["int4"], nodes=("a",))
    layer = {
        "Name": "k",
        "LayerType": "gemm",
        "Inputs": [{"Datatype": "int8"}],
        "Constants": [{"Datatype": "int4"}],
        "Outputs": [],
        "TacticName": "",
        "Metadata": ["a"],
    }
    found = json.loads(encode_layers([kernel], "its text"))
    assert found == {"schema_version": 1, "Layers": [layer], "Dump": "its text"}
    assert faults(found, "layers-file") == []
