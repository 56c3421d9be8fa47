"""Refuse candidates that are no valid models, before a child process is started for them."""

import onnx
from onnx import checker

from qdqtool.models.graph.index.inference import infer_types
from qdqtool.models.graph.io.tensors import is_external, iter_tensors
from qdqtool.models.graph.io.without_weights import without_weights


class Validity:
    """What a candidate must keep of the validity of the model that is reduced.

    The failure may be that the model is invalid. So a candidate is refused only by what accepts the whole model.

    Args:
        proto: The whole model.
    """

    def __init__(self, proto: onnx.ModelProto) -> None:
        self._is_checked = _passes_checker(proto)
        self._is_inferred = infer_types(without_weights(proto)).is_sound

    def accepts(self, proto: onnx.ModelProto) -> bool:
        """Whether a candidate is as valid as the whole model."""
        if self._is_checked and not _passes_checker(proto):
            return False
        return not self._is_inferred or infer_types(without_weights(proto)).is_sound


def _passes_checker(proto: onnx.ModelProto) -> bool:
    """Whether onnx accepts a model. Its weights are not looked at: large ones stand as graph inputs."""
    bare = without_weights(proto)
    for tensor in [each for each in bare.graph.initializer if is_external(each)]:
        if all(value.name != tensor.name for value in bare.graph.input):
            bare.graph.input.append(onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
        bare.graph.initializer.remove(tensor)
    for value in (*bare.graph.input, *bare.graph.output):
        # onnx wants the rank of an input, which shape inference may not know; runtimes do without.
        if value.type.HasField("tensor_type"):
            value.type.tensor_type.shape.SetInParent()
    if any(map(is_external, iter_tensors(bare))):
        # Weights in a body: onnx would look for their data.
        return True
    try:
        checker.check_model(bare)
    except (checker.ValidationError, ValueError):
        return False
    return True
