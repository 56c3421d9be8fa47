"""A float model as a peer can take it: shapes fixed as the peer's documents ask, and an opset that it writes well."""

from pathlib import Path

import onnx
from onnx import version_converter
from onnxruntime.tools.onnx_model_utils import make_input_shape_fixed


def prepared(model: str, folder: str, shapes: str, opset: tuple[int, int] = (0, 0)) -> str:
    """The path of the model, or of a changed copy in ``folder``.

    Args:
        model: Path of the float model.
        folder: For the copy.
        shapes: ``NAME:1x3x32x32`` with commas: what to fix; empty: nothing.
        opset: The least that the peer needs, and what an older one is converted to with onnx's own converter.
    """
    loaded = onnx.load(model, load_external_data=False)
    least, newer = opset
    old = next(entry.version for entry in loaded.opset_import if entry.domain in ("", "ai.onnx")) < least
    if not (shapes or old):
        return model
    loaded = onnx.load(model)
    for shape in filter(None, shapes.split(",")):
        name, _, dims = shape.rpartition(":")
        make_input_shape_fixed(loaded.graph, name, [int(dim) for dim in dims.split("x")])
    changed = str(Path(folder) / "changed.onnx")
    onnx.save(version_converter.convert_version(loaded, newer) if old else loaded, changed)
    return changed
