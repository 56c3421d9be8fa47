"""Layers joined with times and models: sums are exact, and what is unknown counts as unknown."""

import time
from math import fsum
from pathlib import Path

import pytest
from support.engine_models import mixed_axes
from support.kernels import typed_kernel
from support.paths import ROOT

from qdqtool.engines.build.layer_files import LayerFile, LayerProfile, read_layer_file, read_profile
from qdqtool.engines.build.layer_map import map_layers
from qdqtool.engines.report import LayerMap
from qdqtool.engines.tensorrt.kernels import Kernel
from qdqtool.errors import UsageError
from qdqtool.models.graph.model import Model

DATA = ROOT / "tests" / "engines" / "build" / "data" / "trtexec"
INT8, HALF, FLOAT = "int8", "float16", "float32"


def published(release: str) -> LayerMap:
    layers, profile = read_layer_file(DATA / f"{release}.layers.json"), read_profile(DATA / f"{release}.profile.json")
    return map_layers(layers, profile, None)


def layer(name: str, reads: str = INT8, writes: str = INT8, kind: str = "kgen", **more: object) -> Kernel:
    return typed_kernel(name=name, layer_type=kind, inputs=reads.split(), outputs=writes.split(), **more)


def joined(*kernels: Kernel, model: Model | None = None, **times: float) -> LayerMap:
    return map_layers(
        LayerFile(Path("l.json"), kernels, "inspector"), profile(*times.items()) if times else None, model
    )


def profile(*times: tuple[str, float]) -> LayerProfile:
    return LayerProfile(Path("p.json"), 8, times)


def by_type(report: LayerMap) -> dict[str, tuple[int, float | None]]:
    return {each.kind: (each.layers, each.milliseconds) for each in report.by_type}


def test_tensorrt_8():
    found = published("8")
    assert found.runs == 4216
    assert found.milliseconds == fsum([0.0122041, 0.0107465, 0.00864475, 0.00607141, 0.00743947, 0.013199])
    assert by_type(found) == {
        "int8": (3, fsum([0.0107465, 0.00864475, 0.013199])),
        "reformat": (2, fsum([0.0122041, 0.00743947])),
        "unknown": (0, 0.00607141),
    }
    assert [(each.kind, each.layers) for each in found.conversions] == [
        ("float32 -> int8, reformat", 1),
        ("float16 -> int8, reformat", 1),
    ]
    assert found.unmatched == (
        "Reformatting CopyNode for Output Tensor 0 to features.2.conv.2.weight + QuantizeLinear_90 + Conv_94",
    )
    assert found.unmatched_milliseconds == 0.00607141


def test_tensorrt_10():
    found = published("10")
    assert by_type(found) == {
        "float16": (2, fsum([0.0288488, 0.00717002])),
        "reformat": (2, 0.00800422),
        "unknown": (1, 0.00204823),
    }
    assert found.unmatched == ()
    assert found.layers[1].nodes == ("/conv1/Conv", "/relu/Relu")


def test_names_alone_prove_no_type():
    found = published("names")
    assert found.evidence == "none"
    assert {each.computes for each in found.layers} == {"unknown"}
    assert [(each.kind, each.layers) for each in found.by_type] == [("unknown", 5), ("reformat", 1)]
    assert found.layers[5].milliseconds is None


def test_without_a_profile_nothing_is_said_about_times():
    found = joined(layer("a"), layer("b", FLOAT))
    assert (found.runs, found.milliseconds, found.unmatched_milliseconds) == (None, None, None)
    assert by_type(found) == {"int8": (1, None), "float32": (1, None)}


@pytest.mark.parametrize(
    ("kernel", "kind"),
    [
        (layer("conv", kind="CaskConvolution", constants=[INT8]), "int8"),
        (layer("conv", f"{INT8} {HALF}", kind="CaskConvolution", constants=[INT8]), "int8"),
        (layer("conv", HALF, kind="CaskConvolution"), HALF),
        (layer("pool", kind="CaskPooling"), "int8"),
        (layer("/Conv_1/MaxPool", kind="CaskPooling"), "int8"),
        (layer("__myl_FcMul", FLOAT, FLOAT, constants=[INT8]), FLOAT),
        (layer("add", f"{INT8} {FLOAT}"), "int8 + float32"),
        (layer("gather", f"{HALF} int32", HALF), HALF),
        (layer("shape", "int32", "int32"), "int32"),
        (layer("dynamic", f"{INT8} unknown"), "unknown"),
        (layer("conv", f"{INT8} unknown", kind="CaskConvolution", constants=[INT8]), "unknown"),
        (layer("signal", "", ""), "unknown"),
        (layer("{ForeignNode[a...b]}", kind="Myelin"), "unknown"),
        (layer("{ForeignNode[a...b]}", kind=""), "unknown"),
        (layer("own", kind="PluginV3"), "unknown"),
    ],
)
def test_the_type_of_a_layer(kernel: Kernel, kind: str):
    (found,) = joined(kernel).layers
    assert found.computes == kind


@pytest.mark.parametrize(
    ("kernel", "conversion"),
    [
        (layer("q", FLOAT, INT8, "Reformat"), "reformat"),
        (layer("copy", HALF, HALF, "Reformat"), "reformat"),
        (layer("Reformatting CopyNode for Input Tensor 0 to a", HALF, HALF, "NoOp"), "reformat"),
        (layer("quantizes", FLOAT, INT8), "fused"),
        (layer("dequantizes", INT8, HALF), "fused"),
        (layer("residual", f"{INT8} {FLOAT}", INT8), "fused"),
        (layer("both", FLOAT, f"{FLOAT} {INT8}"), None),
        (layer("indices", "int32", INT8), None),
        (layer("own", FLOAT, INT8, "PluginV2"), None),
        (layer("__myl_MulFcAdd", INT8, HALF), None),
        (layer("conv", INT8, HALF, "CaskConvolution"), None),
    ],
)
def test_conversions(kernel: Kernel, conversion: str | None):
    (found,) = joined(kernel).layers
    assert found.conversion == conversion


def test_layers_of_one_name_are_matched_in_order():
    kernels = (layer("a"), layer("b", FLOAT, FLOAT), layer("a", HALF))
    found = map_layers(LayerFile(Path("l"), kernels, "inspector"), profile(("a", 1), ("b", 2), ("a", 4)), None)
    assert [each.milliseconds for each in found.layers] == [1, 2, 4]


def test_another_number_of_layers_of_one_name_makes_their_time_unknown():
    kernels = (layer("a"), layer("b", FLOAT, FLOAT), layer("a"))
    found = map_layers(LayerFile(Path("l"), kernels, "inspector"), profile(("a", 1), ("b", 2)), None)
    assert [each.milliseconds for each in found.layers] == [None, 2, None]
    assert (found.unmatched, found.unmatched_milliseconds) == (("a",), 1)
    assert by_type(found) == {"float32": (1, 2), "unknown": (0, 1), "int8": (2, None)}


def test_the_profile_of_another_engine_is_refused():
    assert joined(layer("a"), a=1, x=2).unmatched == ("x",)  # half is enough
    with pytest.raises(UsageError, match=r"p.json is the profile of another engine: 1 of its 3 layers are in l.json"):
        joined(layer("a"), a=1, x=2, y=3)


def test_planned_types_of_a_model_with_the_times_of_its_layers():
    model = Model(mixed_axes())
    kernels = (
        layer("first", FLOAT, FLOAT, "CaskConvolution", nodes=("a.Conv", "r.Relu")),
        layer("second", kind="CaskConvolution", constants=[INT8], nodes=("b.Conv",)),
        layer("third", kind="gemm", constants=[INT8], nodes=("y.MatMul",)),
    )
    found = joined(*kernels, model=model, first=1.5, second=0.25, third=0.5)
    assert (found.planned, found.achieved) == ({"int8": 3}, {"int8": 2})
    assert [(node.name, node.actual, node.milliseconds) for node in found.nodes] == [
        ("a.Conv", "float32", 1.5),
        ("b.Conv", "int8", 0.25),
        ("y.MatMul", "int8", 0.5),
    ]
    assert found.nodes[0].reason.startswith("its weight has scales along axis 1")


def test_a_layer_of_many_operators_proves_no_fallback():
    nodes = ("a.Conv", "b.Conv", "y.MatMul")
    found = joined(
        layer("{ForeignNode[a.Conv...y.MatMul]}", FLOAT, FLOAT, "Myelin", nodes=nodes), model=Model(mixed_axes())
    )
    assert [node.actual for node in found.nodes] == ["unknown"] * 3
    assert found.layers[0].reads == (FLOAT,)


def test_tensorrt_8_names_nodes_in_the_names_of_its_layers():
    model = Model(mixed_axes())
    copy = "Reformatting CopyNode for Input Tensor 0 to w2 + w2_d.DequantizeLinear + b.Conv"
    names = ("w1 + a.Conv + PWN(r.Relu)", copy, "w2 + b.Conv", "PWN(PWN(f.Flatten, p.GlobalAveragePool))")
    found = joined(*(layer(name, kind="CaskConvolution", constants=[INT8]) for name in names), model=model)
    assert [each.nodes for each in found.layers] == [
        ("a.Conv", "r.Relu"),
        (),
        ("b.Conv",),
        ("f.Flatten", "p.GlobalAveragePool"),
    ]
    assert [node.actual for node in found.nodes] == ["int8", "int8", "unknown"]


def test_names_alone_leave_the_types_of_nodes_unknown():
    kernels = tuple(Kernel(name=name, layer_type="") for name in ("w1 + a.Conv", "b.Conv"))
    found = map_layers(
        LayerFile(Path("l"), kernels, "none"), profile(("w1 + a.Conv", 2), ("b.Conv", 1)), Model(mixed_axes())
    )
    assert [(node.actual, node.milliseconds) for node in found.nodes] == [
        ("unknown", 2),
        ("unknown", 1),
        ("unknown", None),
    ]
    assert found.achieved == {"int8": 0}


def test_the_layers_of_another_model_are_refused():
    model = Model(mixed_axes())
    half = (layer("one", nodes=("a.Conv", "other | body (then_branch) | If_1 (If)")), layer("two"))
    assert len(joined(*half, model=model).nodes) == 3
    with pytest.raises(UsageError, match="1 of the 3 nodes that its layers name are in the model; at least half"):
        joined(layer("one", nodes=("a.Conv", "Conv_1", "Conv_2")), model=model)
    with pytest.raises(UsageError, match="its layers name no node of the model"):
        joined(layer("x"), model=model)


def test_a_hostile_name_costs_no_time():
    start = time.process_time()
    joined(layer("x" * 300_000), layer("Conv" + "x" * 300_000), layer("PWN(" * 100_000, kind="fusion"))
    assert time.process_time() - start < 1
