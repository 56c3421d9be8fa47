"""Makes the files of this folder: ``python make.py`` with aimet-onnx 2.42.0 and torch installed; tests need neither.

``model.onnx`` is a small float model, ``<kind>-<version>.encodings`` what AIMET exports for it. ``weights.npz`` holds
the weights under ``<kind>/<tensor>`` as AIMET's own quantizers make them: float32, quantized and dequantized.
"""

import json
import tempfile
from pathlib import Path

import numpy as np
import onnx
from aimet_onnx.quantsim import (
    QuantizationSimModel,
    set_blockwise_quantization_for_weights,
    set_grouped_blockwise_quantization_for_weights,
)
from onnx import TensorProto, helper, numpy_helper

HERE = Path(__file__).parent
VERSIONS = ("0.6.1", "1.0.0", "2.0.0")
WEIGHTS = ("w", "t", "m", "g")


def model() -> onnx.ModelProto:
    """x[1,4,4,4] -> Conv -> Relu -> ConvTranspose -> Reshape -> MatMul(m[64,32]) -> Gemm(g[16,32] transposed) -> y."""
    rng = np.random.default_rng(0)
    shapes = {"w": (8, 4, 3, 3), "b": (8,), "t": (8, 4, 2, 2), "m": (64, 32), "g": (16, 32), "gb": (16,)}
    weights = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], name="conv", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"], name="relu"),
        helper.make_node("ConvTranspose", ["r", "t"], ["d"], name="deconv", strides=[2, 2]),
        helper.make_node("Reshape", ["d", "s"], ["f"], name="reshape"),
        helper.make_node("MatMul", ["f", "m"], ["h"], name="matmul"),
        helper.make_node("Gemm", ["h", "g", "gb"], ["y"], name="gemm", transB=1),
    ]
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 4, 4, 4))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (4, 16))],
        [numpy_helper.from_array(array, name) for name, array in weights.items()]
        + [numpy_helper.from_array(np.array([-1, 64]), "s")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def strict(sim: QuantizationSimModel) -> None:
    """Every quantizer strictly symmetric: codes from -127 to 127."""
    for quantizer in sim.qc_quantize_op_dict.values():
        quantizer.use_symmetric_encodings = True
        quantizer.use_strict_symmetric = True


def blocks(sim: QuantizationSimModel) -> None:
    """Blocks of 16 input channels, 4 bits, for both products."""
    set_blockwise_quantization_for_weights(sim, ("MatMul", "Gemm"), 4, True, 16)


def lpbq(sim: QuantizationSimModel) -> None:
    """The same with scales of blocks that are whole multiples of one for the channel."""
    set_grouped_blockwise_quantization_for_weights(sim, ("MatMul", "Gemm"), 4, 8, 16)


KINDS = {
    "int8": ({}, None, VERSIONS),
    "strict": ({}, strict, VERSIONS[1:]),
    "blocks": ({"param_type": "int4", "activation_type": "int16"}, blocks, VERSIONS),
    "lpbq": ({"param_type": "int4", "activation_type": "int16"}, lpbq, VERSIONS[1:]),
    "int4": ({"param_type": "int4", "activation_type": "int16"}, None, VERSIONS[1:]),
    "fp8": ({"param_type": "float8e4m3fn", "activation_type": "float8e4m3fn"}, None, VERSIONS[2:]),
    "half": ({"param_type": "int8", "activation_type": "float16"}, None, VERSIONS[1:]),
}


def feed(session: object) -> None:
    """Four samples of noise."""
    rng = np.random.default_rng(1)
    for _ in range(4):
        session.run(None, {"x": rng.normal(size=(1, 4, 4, 4)).astype(np.float32)})


def quantized_weights(sim: QuantizationSimModel) -> dict[str, np.ndarray]:
    """What AIMET's quantizers make of the weights."""
    graph = sim.model.model.graph
    made = {node.input[0]: node.output[0] for node in graph.node if node.op_type == "QcQuantizeOp"}
    graph.output.extend(onnx.ValueInfoProto(name=made[name]) for name in WEIGHTS)
    sim._rebuild_session()
    found = sim.session.run([made[name] for name in WEIGHTS], {"x": np.zeros((1, 4, 4, 4), np.float32)})
    return dict(zip(WEIGHTS, found, strict=True))


def main() -> None:
    """Write everything."""
    onnx.save(model(), HERE / "model.onnx")
    arrays: dict[str, np.ndarray] = {}
    for kind, (types, change, versions) in KINDS.items():
        sim = QuantizationSimModel(model(), providers=["CPUExecutionProvider"], **types)
        if change is not None:
            change(sim)
        sim.compute_encodings(feed)
        with tempfile.TemporaryDirectory() as folder:
            for version in versions:
                sim.export(folder, "model", export_model=False, encoding_version=version)
                document = json.loads((Path(folder) / "model.encodings").read_text())
                (HERE / f"{kind}-{version}.encodings").write_text(json.dumps(document, separators=(",", ":")) + "\n")
        arrays.update({f"{kind}/{name}": array for name, array in quantized_weights(sim).items()})
    np.savez_compressed(HERE / "weights.npz", **arrays)


if __name__ == "__main__":
    main()
