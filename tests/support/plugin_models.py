"""Models with an operator that only a plugin of TensorRT has, and libraries for ``--plugins``."""

import shutil
import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

DOMAIN = "acme"
SWIRL = f"{DOMAIN}::Swirl"


def swirl_model(
    *calls: str, stand_in: bool = True, domain: str = DOMAIN, inner: bool = False, **attributes: str
) -> onnx.ModelProto:
    """Conv, then a Swirl for each name in ``calls`` (one without names), then Conv.

    Args:
        calls: The operators between the Convs.
        stand_in: Whether a local function defines Swirl.
        domain: Domain of these operators.
        inner: Whether the function has a Conv.
        attributes: Attributes of the operators, which the function has as parameters.
    """
    rng = np.random.default_rng(0)
    weights = [
        numpy_helper.from_array(rng.normal(size=shape).astype(np.float32) / 6, name)
        for name, shape in (("w1", (8, 3, 3, 3)), ("w2", (8, 8, 3, 3)))
    ]
    names = calls or ("Swirl",)
    nodes = [helper.make_node("Conv", ["x", "w1"], ["s0"], name="conv1", pads=[1] * 4)]
    for number, name in enumerate(names):
        ends = [f"s{number}"], [f"s{number + 1}"]
        nodes.append(helper.make_node(name, *ends, name=f"swirl{number}", domain=domain, **attributes))
    nodes.append(helper.make_node("Conv", [f"s{len(names)}", "w2"], ["y"], name="conv2", pads=[1] * 4))
    graph = helper.make_graph(
        nodes,
        "swirls",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 8, 8, 8])],
        weights,
    )
    imports = [helper.make_opsetid("", 19), *([helper.make_opsetid(domain, 1)] if domain else [])]
    return helper.make_model(
        graph,
        ir_version=9,
        opset_imports=imports,
        functions=[_function(domain, [*attributes], inner=inner)] if stand_in else [],
    )


def _function(domain: str, parameters: list[str], *, inner: bool) -> onnx.FunctionProto:
    weight = numpy_helper.from_array(np.eye(8, dtype=np.float32).reshape(8, 8, 1, 1), "k")
    nodes = [helper.make_node("Sigmoid", ["a"], ["t"]), helper.make_node("Mul", ["a", "t"], ["b"])]
    if inner:
        constant = helper.make_node("Constant", [], ["k"], value=weight)
        nodes = [constant, helper.make_node("Conv", ["a", "k"], ["b"], name="inner")]
    imports = [helper.make_opsetid("", 19)]
    return helper.make_function(domain, "Swirl", ["a"], ["b"], nodes, imports, attributes=parameters)


def library(folder: Path, source: str, name: str = "libswirl.so") -> Path:
    """Compile a library in C; the test is skipped without a compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    (folder / "source.c").write_text(source)
    command = [compiler, "-shared", "-fPIC", "-o", str(folder / name), str(folder / "source.c")]
    subprocess.run(command, check=True, timeout=60)
    return folder / name
