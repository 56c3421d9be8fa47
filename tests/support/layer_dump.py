"""What the builder's layer dump says of the kernels of a node, read apart from the package's own reader."""

import re

PRODUCTS = r"(?i)corr|gemm|deconv"
"""Kinds of kernels that multiply, fused attention (``_gemm_mha``) too."""


def kernels_of(layers: str, node: str, wanted: str = PRODUCTS) -> list[str]:
    """The lines of the layer dump that name ``node`` and are of a wanted kind."""
    lines = [line for line in layers.splitlines() if f"[ONNX Layer: {node}]" in line]
    return [line for line in lines if re.search(wanted, line.partition("Inputs: [")[0])]


def input_types(kernel: str) -> list[str]:
    """Data types of what a kernel reads, constants not counted."""
    return _types(kernel.partition("Inputs: [")[2].partition("Constants: [")[0].partition("Outputs: [")[0])


def output_types(kernel: str) -> list[str]:
    """Data types of what a kernel writes."""
    return _types(kernel.partition("Outputs: [")[2].partition("TacticName: ")[0])


def multiplied_types(layers: str, node: str) -> set[str]:
    """Data types that the kernels multiplying for ``node`` read; masks are not multiplied."""
    kernels = kernels_of(layers, node)
    assert kernels, f"no kernel of {node} in:\n{layers}"
    return {kind for kernel in kernels for kind in input_types(kernel)} - {"Bool"}


def _types(text: str) -> list[str]:
    return re.findall(r"Datatype: (\w+)", text)
