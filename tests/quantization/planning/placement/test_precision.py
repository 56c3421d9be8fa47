"""What placement plans is what TensorRT for RTX runs: on networks of every family, in int8 and in fp8.

Every product of a network is planned or named with a reason; every planned one reads codes in the layer dump of the
engine; and our own linter has nothing to say.
"""

from pathlib import Path

import onnx
import pytest
from support.networks import NETWORKS
from support.paths import ROOT
from support.placed import place, proposal

from qdqtool.engines.build.options import BuildOptions
from qdqtool.jobs.build import build_engine
from qdqtool.jobs.validate import validate_model
from qdqtool.models.graph.io.load import load_model
from qdqtool.models.transforms.batchnorm import fold_batchnorm

pytestmark = pytest.mark.builder

SAMPLES = ROOT / "sample_models"
FORMATS = ("int8", "float8e4m3fn")
PRODUCTS = ("Conv", "ConvTranspose", "Einsum", "Gemm", "LSTM", "MatMul")

LEFT = {
    ("lstm", "int8"): {"l1.LSTM", "l2.LSTM"},
    ("lstm", "float8e4m3fn"): {"l1.LSTM", "l2.LSTM"},
    ("unet", "int8"): {"up0.ConvTranspose", "up1.ConvTranspose"},
    ("unet", "float8e4m3fn"): {"up0.ConvTranspose", "up1.ConvTranspose"},
    ("resnet", "float8e4m3fn"): {"stem.Conv"},
    ("vit", "float8e4m3fn"): {"patches.Conv"},
}
"""Products that stay float, by network and format; everything else is quantized."""


def products(model: onnx.ModelProto) -> list[onnx.NodeProto]:
    return [node for node in model.graph.node if node.op_type in PRODUCTS]


def names_of_products(model: onnx.ModelProto) -> set[str]:
    return {node.name for node in products(model)}


def has_full_tiles(node: onnx.NodeProto, model: onnx.ModelProto) -> bool:
    """Whether a matrix product has 16 rows and columns; the sample models have no Conv that is small on both sides."""
    shapes = {tensor.name: tensor.dims for tensor in model.graph.initializer}
    return node.op_type == "Conv" or min(shapes.get(node.input[1], [16])) >= 16


def report_of(folder: Path):
    options = BuildOptions(compute_capabilities=("8.9",), timeout=300)
    return build_engine(folder / "placed.onnx", folder / "engine", backend="tensorrt-rtx", options=options)


def assert_runs_as_planned(folder: Path, planned: int, number_format: str) -> None:
    # QN504: every activation here has the same made-up range, which no Softmax fills.
    assert validate_model(folder / "placed.onnx", ["tensorrt", "tensorrt-rtx"], ignore=["QN504"]).findings == ()
    report = report_of(folder)
    assert [node for node in report.nodes if node.reason is not None] == []
    assert report.achieved == report.planned == {number_format: planned}


@pytest.mark.slow(reason="builds an engine for each node")
@pytest.mark.parametrize("number_format", FORMATS)
@pytest.mark.parametrize("name", NETWORKS)
def test_every_product_of_a_network_runs_as_planned(name, number_format, tmp_path):
    model = NETWORKS[name]()
    left = LEFT.get((name, number_format), set())
    skipped = {node.node: node.reason.text for node in proposal(model, number_format=number_format).skipped}
    products = names_of_products(model)
    assert products & set(skipped) == left
    place(model, tmp_path, number_format=number_format)
    assert_runs_as_planned(tmp_path, len(products) - len(left), number_format)


@pytest.mark.slow(reason="builds an engine for each node")
@pytest.mark.parametrize("number_format", FORMATS)
@pytest.mark.parametrize("path", sorted(SAMPLES.glob("*/*.onnx")), ids=lambda path: f"{path.parent.name}_{path.stem}")
def test_every_product_of_a_sample_model_runs_as_planned(path, number_format, tmp_path):
    folded = fold_batchnorm(load_model(path)).model
    place(folded.proto, tmp_path, number_format=number_format)
    assert_runs_as_planned(
        tmp_path, sum(has_full_tiles(node, folded.proto) for node in products(folded.proto)), number_format
    )
