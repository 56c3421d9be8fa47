"""The map of kernels, against the text of dumps that RTX 1.7.1 printed for sample models quantized to int8."""

import math
import re
from collections import Counter

import pytest
from support.kernels import dumped, kernels_in, tensors, typed_kernel

from qdqtool.engines.build.engine_map import Products, map_kernels, sum_macs
from qdqtool.engines.tensorrt.kernels import Kernel, KernelTensor

SIZES = {"Float": ("float32", 4), "Int8": ("int8", 1)}
TENSOR = re.compile(r"\{ Name: ([^,]*), Dimensions: \[([\d,]*)\].*?Datatype: (\w+),")


@pytest.mark.parametrize("name", ["digits_cnn", "digits_depthwise", "digits_transformer"])
def test_a_map_has_every_tensor_of_the_dump_in_its_order(name):
    lines = dumped(name).partition("\n\nI/O Tensors:")[0].splitlines()[1:]
    kernels = map_kernels(kernels_in(name), Products())
    assert len(kernels) == len(lines)
    for kernel, line in zip(kernels, lines, strict=True):
        assert line.startswith(f"Name: {kernel.name}, LayerType: {kernel.layer_type}, ")
        assert kernel.generated is ("__myelin_CASK_STUB" not in line)
        assert list(kernel.nodes) == re.findall(r"\[ONNX Layer: ([^\]]*)\]", line)
        expected = TENSOR.findall(line)
        found = [*kernel.inputs, *kernel.constants, *kernel.outputs]
        assert [(tensor.name, ",".join(map(str, tensor.shape))) for tensor in found] == [each[:2] for each in expected]
        sizes: Counter[str] = Counter()
        for _, dims, kind in expected:
            name_of_type, size = SIZES[kind]
            sizes[name_of_type] += size * math.prod(map(int, dims.split(",")))
        assert kernel.bytes == sizes


def test_bytes_are_unknown_where_one_extent_is():
    known, open_shape = tensors("int8"), (KernelTensor("o", "float32", (None, 4)),)
    (kernel,) = map_kernels([Kernel(name="k", layer_type="gemm", inputs=known, outputs=open_shape)], Products())
    assert kernel.bytes is None
    (kernel,) = map_kernels([Kernel(name="k", layer_type="gemm", inputs=known)], Products())
    assert kernel.bytes == {"int8": 256}


def test_multiply_accumulates_are_summed_by_the_type_of_the_kernels():
    types = {"a": "int8", "b": "float32", "c": "int8", "d": "int8", "e": "int8"}
    products = Products({0: 100, 1: 7, 2: None, 4: 20}, ("lost",))
    kernels = map_kernels(
        [typed_kernel(name=name, layer_type="gemm", inputs=[kind], constants=[kind]) for name, kind in types.items()],
        products,
    )
    expected = [("int8", 100), ("float32", 7), ("int8", None), (None, 0), ("int8", 20)]
    assert [(each.computes, each.macs) for each in kernels] == expected
    macs = sum_macs(kernels, products)
    assert macs.by_type == {"float32": 7, "int8": 120}
    assert (macs.unknown_kernels, macs.nodes_without_kernel) == (("c",), ("lost",))


def test_a_constant_that_several_kernels_read_is_stored_once():
    shared, own, unknown = (
        KernelTensor(name, "int8", shape) for name, shape in (("w", (4, 8)), ("v", (3,)), ("u", None))
    )
    kernels = [
        Kernel(name=name, layer_type="gemm", inputs=tensors("int8"), constants=each)
        for name, each in (("a", (shared, own)), ("b", (shared, unknown)))
    ]
    assert sum_macs(map_kernels(kernels, Products()), Products()).weight_bytes == {"int8": 35}


def test_records_that_only_synchronize_are_no_kernels():
    wait = Kernel(name="wait_0", layer_type="wait")
    first, second = (Kernel(name=name, layer_type="gemm", inputs=tensors("int8")) for name in "ab")
    found = map_kernels([wait, first, wait, second], Products({1: 5, 3: 7}))
    assert [(kernel.name, kernel.macs) for kernel in found] == [("a", 5), ("b", 7)]
