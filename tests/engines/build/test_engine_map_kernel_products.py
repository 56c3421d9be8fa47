"""Multiply-accumulates of kernels: of a stored dump, counted by hand, and of shapes that say less."""

import onnx
import pytest
from onnx import helper
from support.engine_models import ROWS, Net, branches, in_a_function, matmul, mixed_axes
from support.kernels import kernels_in, tensors

from qdqtool.engines.build.engine_map import Products, find_products
from qdqtool.engines.report import InputProfile
from qdqtool.engines.tensorrt.kernels import Kernel
from qdqtool.models.graph.model import Model


def gemm(*nodes: str) -> Kernel:
    return Kernel(name=f"{nodes[0]}_0", layer_type="gemm", inputs=tensors("int8"), nodes=nodes)


def test_each_kernel_of_a_network_has_the_products_of_its_nodes():
    kernels = kernels_in("mixed_axes")
    products = find_products(Model(mixed_axes()), kernels, ())
    found = {kernels[at].name.partition("_myl")[0]: count for at, count in products.macs.items()}
    conv = 8 * 8 * 16 * 16 * 3 * 3
    assert found == {"a.Conv": conv, "b.Conv": conv, "c.Conv": 8 * 8 * 16 * 16, "y.MatMul": 16 * 10}
    assert products.nodes_without_kernel == ()


def test_a_kernel_of_several_products_has_their_sum():
    net = Net()
    x = net.activation("x")
    net.op("MatMul", [x, net.weight("w", (64, 32), axis=1)], "a")
    net.op("MatMul", [x, net.weight("v", (64, 16), axis=1)], "b")
    net.op("Concat", ["a", "b"], "y", axis=1)
    products = find_products(Model(net.model(ROWS)), (gemm("a.MatMul", "b.MatMul"),), ())
    assert products == Products({0: 8 * 64 * (32 + 16)})


def open_rows() -> onnx.ModelProto:
    model = matmul()
    model.graph.input[0].CopyFrom(helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ("batch", 64)))
    return model


@pytest.mark.parametrize(
    ("profiles", "expected"),
    [
        ((), None),
        ((InputProfile("x", (1, 64), (8, 64), (9, 64)),), None),
        ((InputProfile("x", (3, 64), (3, 64), (3, 64)),), 3 * 64 * 32),
    ],
)
def test_an_open_shape_is_known_from_a_profile_of_one_shape_only(profiles, expected):
    assert find_products(Model(open_rows()), (gemm("y.MatMul"),), profiles).macs == {0: expected}


def test_a_product_in_no_kernel_is_named_but_without_kernels_nothing_is_known():
    assert find_products(Model(matmul()), (gemm("elsewhere"),), ()) == Products({}, ("y.MatMul",))
    assert find_products(Model(matmul()), (), ()) == Products()


def test_both_branches_of_an_if_are_counted():
    products = find_products(Model(branches()), kernels_in("branches"), ())
    assert list(products.macs.values()) == [8 * 64 * 32] * 2
    assert products.nodes_without_kernel == ()


def test_what_a_function_computes_is_not_known():
    found = find_products(Model(in_a_function()), kernels_in("in_a_function"), ())
    assert list(found.macs.values()) == [None]


def test_products_inside_a_recurrent_layer_are_not_known():
    net = Net()
    net.op("LSTM", ["x", net.float_weight("w", (1, 32, 16)), net.float_weight("r", (1, 32, 8))], "y", hidden_size=8)
    model = Model(net.model({"x": (2, 3, 16)}))
    assert find_products(model, (gemm("y.LSTM"),), ()).macs == {0: None}
