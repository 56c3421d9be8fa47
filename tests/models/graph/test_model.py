"""A model in memory: its folder, its opset, forks of its own, and a folder for offloaded weights that goes with it."""

import importlib
import inspect
import pkgutil
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

import numpy as np
import onnx
import pytest
from onnx import helper
from support.batchnorm import batchnorm_model
from support.joint_attention import joint_attention
from support.paths import ROOT
from support.placed import place
from support.small import conv_model

import qdqtool.models.transforms
import qdqtool.quantization.insertion
from qdqtool.models.graph.edits.unused import without_unused
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.view import GraphView
from qdqtool.models.graph.io.load import load_model
from qdqtool.models.graph.io.offload import offloaded
from qdqtool.models.graph.model import Model, Transformed, opset_version
from qdqtool.models.options import HalfType
from qdqtool.models.payload import Payload
from qdqtool.models.transforms.batchnorm import fold_batchnorm
from qdqtool.models.transforms.half import convert_to_half
from qdqtool.models.transforms.opset import upgrade_opset
from qdqtool.models.transforms.rescaling_points import PointKind, find_rescaling_points
from qdqtool.models.transforms.specialize import specialize
from qdqtool.models.transforms.strip import strip_from
from qdqtool.models.transforms.taps import tap_tensors
from qdqtool.quantization.insertion.split_qkv import separate_like, separate_projections
from qdqtool.quantization.planning.high_precision import lower
from qdqtool.quantization.preparation.rescaling import rescale


def importing(*imports):
    return onnx.ModelProto(opset_import=[helper.make_opsetid(domain, version) for domain, version in imports])


def test_external_locations_are_relative_to_the_folder_of_the_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert Model(conv_model(), Path("a/b/m.onnx")).folder == Path("a/b")
    assert Model(conv_model()).folder == tmp_path


@pytest.mark.parametrize(
    ("imports", "version"),
    [([("", 17)], 17), ([("ai.onnx", 13)], 13), ([("com.microsoft", 1), ("", 11)], 11), ([("my", 4)], 1), ([], 1)],
)
def test_the_default_domain_has_two_names_and_is_version_1_when_not_imported(imports, version):
    assert Model(importing(*imports)).default_opset() == version
    assert opset_version(importing(*imports), "ai.onnx") == version


def test_other_domains_have_their_own_version():
    proto = importing(("", 17), ("com.microsoft", 2))
    assert [opset_version(proto, domain) for domain in ("com.microsoft", "my")] == [2, 1]
    assert opset_version(onnx.FunctionProto(opset_import=proto.opset_import), "com.microsoft") == 2


def test_payloads_that_a_fork_gets_are_not_in_the_model_it_came_from():
    model = Model(conv_model(), Path("m.onnx"), {"a": Payload(1, lambda: b"a")}, stored_outside=True)
    fork = model.fork()
    fork.payloads["b"] = Payload(1, lambda: b"b")
    assert (list(model.payloads), list(fork.payloads)) == (["a"], ["a", "b"])
    assert fork.proto is model.proto
    assert (fork.path, fork.stored_outside) == (model.path, True)


# What :class:`Transformed` promises of every transform: one type, and a given model that stays as it is.


def _shape(model: Model) -> tuple[int, ...]:
    return tuple(dim.dim_value or 2 for dim in model.proto.graph.input[0].type.tensor_type.shape.dim)


def _rescaled(model: Model) -> Transformed[Any]:
    index = ModelIndex.of(model)
    points, _ = find_rescaling_points(index, PointKind.PRODUCT)
    return rescale(index, {point: np.full(point.channels, 2.0) for point in points})


def _tapped(model: Model) -> Transformed[Any]:
    index = ModelIndex.of(model)
    values = [value for value in index.view.values() if value.producer is not None]
    return tap_tensors(index.view, values, index.types.elem_type)


@cache
def _placed() -> Model:
    with tempfile.TemporaryDirectory() as folder:
        return Model(place(joint_attention(), Path(folder)))


def _separated_like(model: Model) -> Transformed[Any]:
    return separate_like(separate_projections(_placed(), "tensorrt").model, model)


def _without_unused(model: Model) -> Transformed[Any]:
    """Of a model that another node read more of before."""
    before = onnx.ModelProto()
    before.CopyFrom(model.proto)
    before.graph.node.add(op_type="Identity", input=[before.graph.initializer[-1].name], output=["copy"])
    return without_unused(GraphView(Model(before)), model)


TRANSFORMS: dict[str, Callable[[Model], Transformed[Any]]] = {
    "convert_to_half": lambda model: convert_to_half(model, HalfType.FP16),
    "fold_batchnorm": fold_batchnorm,
    "lower": lambda model: lower(model, HalfType.FP16, {}),
    "rescale": _rescaled,
    "separate_like": _separated_like,
    "separate_projections": lambda model: separate_projections(model, "tensorrt"),
    "specialize": lambda model: specialize(model, {model.proto.graph.input[0].name: _shape(model)}),
    "strip_from": strip_from,
    "without_unused": _without_unused,
    "tap_tensors": _tapped,
    "upgrade_opset": lambda model: upgrade_opset(model, 22),
}


@pytest.fixture(scope="module")
def models() -> list[Model]:
    """Float models with much to do, one with an unused weight, and a quantized one; weights are offloaded."""
    depthwise = load_model(ROOT / "sample_models" / "digits_depthwise" / "uneven.onnx")
    attention = joint_attention()
    attention.graph.initializer.append(onnx.numpy_helper.from_array(np.ones(4, np.float32), "unused"))
    return [offloaded(model) for model in (Model(batchnorm_model(1.0)), depthwise, Model(attention), _placed())]


@pytest.mark.parametrize("name", TRANSFORMS)
def test_a_transform_returns_a_report_and_leaves_the_given_model_alone(name: str, models: list[Model]) -> None:
    changed = 0
    for model in models:
        before, payloads = model.proto.SerializeToString(deterministic=True), dict(model.payloads)
        result = TRANSFORMS[name](model)
        assert isinstance(result, Transformed)
        assert model.proto.SerializeToString(deterministic=True) == before
        assert model.payloads == payloads
        if result.model is not model:
            assert result.model.proto is not model.proto
            assert result.model.payloads is not model.payloads
            changed += result.model.proto != model.proto
    assert changed, "no model has anything to do"


def public_functions() -> Iterator[Callable[..., Any]]:
    for package in (qdqtool.models.transforms, qdqtool.quantization.insertion):
        for info in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            module = importlib.import_module(info.name)
            for name, found in inspect.getmembers(module, inspect.isfunction):
                if not name.startswith("_") and found.__module__ == info.name:
                    yield found


def test_every_function_that_makes_a_model_says_what_it_did() -> None:
    returned = {found: get_type_hints(found).get("return") for found in public_functions()}
    bare = [found for found, kind in returned.items() if kind is Model or Model in get_args(kind)]
    assert not bare
    assert sum(get_origin(kind) is Transformed for kind in returned.values()) > 8
