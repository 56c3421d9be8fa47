"""Layers and their nodes."""

from qdqtool.engines.gpu.runner import LayerTime, with_nodes


def test_layers_without_nodes_get_those_of_the_manifest():
    layers = (LayerTime("a", ("conv",), 1.0), LayerTime("b", (), 2.0), LayerTime("c", (), 3.0))
    assert with_nodes(layers, {"a": ("other",), "b": ("relu",)}) == (
        LayerTime("a", ("conv",), 1.0),
        LayerTime("b", ("relu",), 2.0),
        LayerTime("c", (), 3.0),
    )
