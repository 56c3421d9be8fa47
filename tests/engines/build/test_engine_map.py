"""The map of kernels, against the text of dumps that RTX 1.7.1 printed for sample models quantized to int8."""

import re
from pathlib import Path

import pytest
from support.kernels import tensors

from qdqtool.engines.build.engine_map import Products, map_kernels, sum_macs
from qdqtool.engines.tensorrt.inspector import read_dump
from qdqtool.engines.tensorrt.kernels import Kernel, KernelTensor

DATA = Path(__file__).parents[1] / "tensorrt" / "data"
SIZES = {"Float": ("float32", 4), "Int8": ("int8", 1)}
TENSOR = re.compile(r"\{ Name: ([^,]*), Dimensions: \[([\d,]*)\].*?Datatype: (\w+),")


@pytest.mark.parametrize("name", ["digits_cnn", "digits_depthwise", "digits_transformer"])
def test_a_map_has_every_tensor_of_the_dump_in_its_order(name):
    text = (DATA / f"{name}.txt").read_text(encoding="utf-8")
    lines = text.partition("\n\nI/O Tensors:")[0].splitlines()[1:]
    kernels = map_kernels(read_dump(text), Products())
    assert len(kernels) == len(lines)
    for kernel, line in zip(kernels, lines, strict=True):
        assert line.startswith(f"Name: {kernel.name}, LayerType: {kernel.layer_type}, ")
        assert kernel.generated is ("__myelin_CASK_STUB" not in line)
        assert list(kernel.nodes) == re.findall(r"\[ONNX Layer: ([^\]]*)\]", line)
        expected = TENSOR.findall(line)
        found = [*kernel.inputs, *kernel.constants, *kernel.outputs]
        assert [(tensor.name, ",".join(map(str, tensor.shape))) for tensor in found] == [each[:2] for each in expected]
        sizes: dict[str, int] = {}
        for _, dims, kind in expected:
            count = 1
            for dim in dims.split(","):
                count *= int(dim)
            sizes[SIZES[kind][0]] = sizes.get(SIZES[kind][0], 0) + count * SIZES[kind][1]
        assert kernel.bytes == sizes


def test_bytes_are_unknown_where_one_extent_is():
    known, open_shape = tensors("int8"), (KernelTensor("o", "float32", (None, 4)),)
    (kernel,) = map_kernels([Kernel(name="k", layer_type="gemm", inputs=known, outputs=open_shape)], Products())
    assert kernel.bytes is None
    (kernel,) = map_kernels([Kernel(name="k", layer_type="gemm", inputs=known)], Products())
    assert kernel.bytes == {"int8": 256}


def test_multiply_accumulates_are_summed_by_the_type_of_the_kernels():
    def kernel(name: str, kind: str) -> Kernel:
        return Kernel(name=name, layer_type="gemm", inputs=tensors(kind), constants=tensors(kind))

    products = Products({0: 100, 1: 7, 2: None, 4: 20}, ("lost",))
    kernels = map_kernels(
        [kernel("a", "int8"), kernel("b", "float32"), kernel("c", "int8"), kernel("d", "int8"), kernel("e", "int8")],
        products,
    )
    assert [(each.computes, each.macs) for each in kernels] == [
        ("int8", 100),
        ("float32", 7),
        ("int8", None),
        (None, 0),
        ("int8", 20),
    ]
    macs = sum_macs(kernels, products)
    assert macs.by_type == {"float32": 7, "int8": 120}
    assert macs.unknown_kernels == ("c",)
    assert macs.nodes_without_kernel == ("lost",)


def test_records_that_only_synchronize_are_no_kernels():
    wait = Kernel(name="wait_0", layer_type="wait")
    first, second = (Kernel(name=name, layer_type="gemm", inputs=tensors("int8")) for name in "ab")
    found = map_kernels([wait, first, wait, second], Products({1: 5, 3: 7}))
    assert [(kernel.name, kernel.macs) for kernel in found] == [("a", 5), ("b", 7)]
