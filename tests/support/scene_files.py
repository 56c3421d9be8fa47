"""Files for the scenes of the golden outputs: each is made when a command line names it."""

import contextlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

from qdqtool import __main__ as entry
from support import saved_reports
from support.engine_models import mixed_axes
from support.networks import Network
from support.paths import ROOT
from support.qdq import text_model

Maker = Callable[[Path], None]
TRTEXEC = ROOT / "tests" / "engines" / "build" / "data" / "trtexec"


def _net(path: Path) -> None:
    """x[1,3,8,8] -> Conv, Relu -> Conv, residual Add, Relu -> GlobalAveragePool, Flatten, Gemm -> y[1,20]."""
    net = Network()
    stem = net.relu(net.conv("x", "stem", (16, 3, 3, 3)))
    block = net.relu(net.op("Add", [net.conv(stem, "block", (16, 16, 3, 3)), stem], "sum"))
    flat = net.op("Flatten", [net.op("GlobalAveragePool", [block], "mean")], "flat")
    net.op("Gemm", [flat, net.weight("fc.weight", (20, 16), 16), net.weight("fc.bias", (20,), 100)], "y", transB=1)
    onnx.save(net.model({"x": (1, 3, 8, 8)}), path)


def _uneven(path: Path) -> None:
    """x[1,3,8,8] -> Conv, Relu -> Conv -> y[1,16,8,8], with one channel between them fifty times as large."""
    net = Network()
    net.conv(net.relu(net.conv("x", "first", (16, 3, 3, 3))), "y", (16, 16, 3, 3))
    for stored in net.initializers:
        values = numpy_helper.to_array(stored).copy()
        if stored.name.startswith("first"):
            values[0] *= 50
        elif stored.name == "y.weight":
            values[:, 0] /= 50
            values[3] = 0
        stored.CopyFrom(numpy_helper.from_array(values, stored.name))
    onnx.save(net.model({"x": (1, 3, 8, 8)}), path)


def _linear(path: Path) -> None:
    """x[1,32,64] -> MatMul, Add -> y[1,32,64]."""
    net = Network()
    net.linear("x", "y", 64, 64)
    onnx.save(net.model({"x": (1, 32, 64)}), path)


def _wrong_axis(path: Path) -> None:
    """Three quantized nodes, of which the first Conv has the scales of its weight on the wrong axis."""
    onnx.save(mixed_axes(), path)


def _samples(path: Path) -> None:
    np.savez(path, x=np.random.default_rng(1).normal(size=(32, 3, 8, 8)).astype(np.float32))


def _zeros(path: Path) -> None:
    np.savez(path, x=np.zeros((32, 3, 8, 8), np.float32))


def _transposed(path: Path) -> None:
    np.savez(path, x=np.ones((32, 8, 8, 3), np.float32))


def _command(*words: str) -> Maker:
    """Make a file with the command line itself; ``@`` stands for its path."""

    def make(path: Path) -> None:
        given = [str(path) if word == "@" else str(provide(word, path.parent)) for word in words]
        with contextlib.suppress(SystemExit):
            entry.main([*given, "--quiet"])
        assert path.exists(), words

    return make


def _manifest(path: Path) -> None:
    """The manifest of an engine, without the engine."""
    _command("build", "int8.onnx", "-o", "@", "--backend", "tensorrt-rtx", "--compute-capabilities", "8.9")(
        path.with_name(path.name.removesuffix(".manifest.json"))
    )


def _text(text: str) -> Maker:
    def make(path: Path) -> None:
        path.write_text(text)

    return make


def _saved(document: saved_reports.Document) -> Maker:
    return _text(json.dumps(saved_reports.whole(document)))


def _model(text: str) -> Maker:
    def make(path: Path) -> None:
        onnx.save(text_model(text).proto, path)

    return make


def _changed(source: str, edit: Callable[[onnx.ModelProto], None]) -> Maker:
    """Another file of the table, with something changed."""

    def make(path: Path) -> None:
        model = onnx.load(provide(source, path.parent))
        edit(model)
        onnx.save(model, path)

    return make


def _coarse(model: onnx.ModelProto) -> None:
    """Make one activation scale a hundred times too large."""
    for stored in model.graph.initializer:
        if stored.name == "stem_relu_scale_float16":
            wrong = np.asarray(numpy_helper.to_array(stored) * 100, np.float16)
            stored.CopyFrom(numpy_helper.from_array(wrong, stored.name))


def _mismatched(model: onnx.ModelProto) -> None:
    """Let a DQ multiply by another scale than its Q divided by."""
    third = np.asarray(0.01, np.float16)
    model.graph.initializer.append(numpy_helper.from_array(third, "another_scale"))
    (dq,) = (node for node in model.graph.node if node.input[0] == "stem_relu_QuantizeLinear_Output")
    dq.input[1] = "another_scale"


def _without_skip(model: onnx.ModelProto) -> None:
    """Let the residual Add read the float tensor beside its pair."""
    (add,) = (node for node in model.graph.node if node.op_type == "Add")
    for index, name in enumerate(add.input):
        if name.startswith("stem_relu"):
            add.input[index] = "stem_relu"


_PLAN = """schema_version = 1

[[tensors]]
tensor = "x"
format = "int8"
scale = 0.02

[[tensors]]
tensor = "stem_relu"
format = "int8"
scale = 0.05

[[tensors]]
tensor = "*.weight"
format = "int8"
scale = 0.01
"""

_FAULTY = """
<ir_version: 10, opset_import: ["": 21]>
faulty (float[1,4] x) => (float[1,2] y)
<float s = {0.1}, int8 z = {0}, int8[4,2] w = {1,0,2,0,3,0,4,0}, float[2] ws = {0.1, 0}, int8[2] wz = {0, 0},
 float t = {-0.5}> {
  [first] q = QuantizeLinear (x, s, z)
  [second] d = DequantizeLinear (q, s, z)
  [weight] e = DequantizeLinear <axis = 1> (w, ws, wz)
  [product] m = MatMul (d, e)
  [third] r = QuantizeLinear (m, t, z)
  [fourth] y = DequantizeLinear (r, t, z)
}
"""

_UNSIGNED = """
<ir_version: 10, opset_import: ["": 21]>
unsigned (float[1,4] x) => (float[1,4] y) <float s = {0.05}, uint8 z = {128}> {
  [quant] q = QuantizeLinear (x, s, z)
  [dequant] d = DequantizeLinear (q, s, z)
  [negate] y = Neg (d)
}
"""

_CLIPPED = """
<ir_version: 10, opset_import: ["": 21]>
clipped (float[4] x) => (float[4] y) <float s = {0.02}, uint8 z = {0}, float two = {2}> {
  [double] a = Mul (x, two)
  [quant] q = QuantizeLinear (a, s, z)
  [dequant] d = DequantizeLinear (q, s, z)
  [negate] y = Neg (d)
}
"""

_CODES = """
<ir_version: 10, opset_import: ["": 21]>
codes (int8[4] x) => (int8[4] y) <float s = {0.5}, int8 z = {0}> {
  [from_input] a = DequantizeLinear (x, s, z)
  [negate] b = Neg (a)
  [to_output] y = QuantizeLinear (b, s, z)
}
"""

_SPELLED = """
<ir_version: 10, opset_import: ["": 21]>
spelled (float[2,4] x) => (float[2,4] y, float[2,4] z)
<float s = {0.05}, float low = {-128}, float high = {127}, float a = {0.5}, float b = {0.1}, int8 zero = {0}> {
  [div] t0 = Div (x, s)
  [round] t1 = Round (t0)
  [clip] t2 = Clip (t1, low, high)
  [mul] y = Mul (t2, s)
  [scale] t = Mul (a, b)
  [quant] q = QuantizeLinear (x, t, zero)
  [dequant] z = DequantizeLinear (q, t, zero)
}
"""

_CHANNELS = """
<ir_version: 10, opset_import: ["": 21]>
channels (float[2,4] x) => (float[2,4] y)
<float[2] s = {0.02, 0.02}, uint8[2] z = {0, 128}, float two = {2}> {
  [double] a = Mul (x, two)
  [quant] q = QuantizeLinear <axis = 0> (a, s, z)
  [dequant] d = DequantizeLinear <axis = 0> (q, s, z)
  [negate] y = Neg (d)
}
"""

_BEFORE = """
<ir_version: 10, opset_import: ["": 21]>
before (float[2,4] x) => (float[4,2] y, float[2,4] z) <float s = {0.05}, float t = {0.1}, int8 o = {0}> {
  [quant] q = QuantizeLinear (x, s, o)
  [dequant] d = DequantizeLinear (q, s, o)
  [turn] e = Transpose <perm = [1, 0]> (d)
  [negate] y = Neg (e)
  [magnitude] f = Abs (x)
  [root] g = Sqrt (f)
  [quant2] r = QuantizeLinear (g, t, o)
  [dequant2] h = DequantizeLinear (r, t, o)
  [sine] z = Sin (h)
}
"""
_AFTER = """
<ir_version: 10, opset_import: ["": 21]>
after (float[2,4] x) => (float[4,2] y, float[2,4] z) <float s = {0.05}, float t = {0.1}, int8 o = {0}> {
  [turn] d = Transpose <perm = [1, 0]> (x)
  [quant] q = QuantizeLinear (d, s, o)
  [dequant] e = DequantizeLinear (q, s, o)
  [negate] y = Neg (e)
  [magnitude] f = Abs (x)
  [quant2] r = QuantizeLinear (f, t, o)
  [dequant2] g = DequantizeLinear (r, t, o)
  [root] h = Sqrt (g)
  [quant3] p = QuantizeLinear (h, s, o)
  [dequant3] i = DequantizeLinear (p, s, o)
  [sine] z = Sin (i)
}
"""

_BRANCHES = """
<ir_version: 10, opset_import: ["": 21]>
branches (float[1,3] x, bool taken) => (float[1,3] y)
<float[3,3] w = {1, 0, 0, 0, 2, 0, 0, 0, 3}, float s = {0.5}, int8 z = {0}> {
  [choose] y = If (taken) <
    then_branch = yes () => (float[1,3] a) {
      [quant_then] q = QuantizeLinear (x, s, z)
      [dequant_then] a = DequantizeLinear (q, s, z)
    },
    else_branch = no () => (float[1,3] b) {
      [negate] n = Neg (x)
      [quant_else] r = QuantizeLinear (n, s, z)
      [dequant_else] m = DequantizeLinear (r, s, z)
      [product] b = MatMul (m, w)
    }
  >
}
"""

_NEGATIVE_LOG = """
<ir_version: 10, opset_import: ["": 21]>
logarithm (float[1,8] x) => (float[1,8] y) <float s = {0.05}, int8 z = {0}> {
  [quant] q = QuantizeLinear (x, s, z)
  [dequant] d = DequantizeLinear (q, s, z)
  [log] l = Log (d)
  [square] y = Mul (l, l)
}
"""

_DYNAMIC = """
<ir_version: 10, opset_import: ["": 21]>
dynamic (float[batch, rows, 4] x) => (float[batch, rows, 4] y) <float s = {0.05}, int8 z = {0}> {
  [quant] q = QuantizeLinear (x, s, z)
  [dequant] y = DequantizeLinear (q, s, z)
}
"""

_TENSORRT_CACHE = "TRT-100500-EntropyCalibration2\nx: 3c010a14\nstem_relu: 3cb851ec\nelsewhere: 3cb851ec\n"


FILES: Mapping[str, Maker] = {
    "net.onnx": _net,
    "uneven.onnx": _uneven,
    "linear.onnx": _linear,
    "wrong_axis.onnx": _wrong_axis,
    "samples.npz": _samples,
    "zeros.npz": _zeros,
    "transposed.npz": _transposed,
    "int8.onnx": _command("quantize", "net.onnx", "--calib-data", "samples.npz", "-o", "@"),
    "coarse.onnx": _changed("int8.onnx", _coarse),
    "mismatched.onnx": _changed("int8.onnx", _mismatched),
    "no_skip.onnx": _changed("int8.onnx", _without_skip),
    "ranges.json": _command("calibrate", "net.onnx", "--calib-data", "samples.npz", "-o", "@"),
    "outputs.npz": _command("check", "net.onnx", "--data", "samples.npz", "--save-outputs", "@"),
    "part1.json": _command("calibrate", "net.onnx", "--calib-data", "samples.npz", "--shard", "1/2", "-o", "@"),
    "part2.json": _command("calibrate", "net.onnx", "--calib-data", "samples.npz", "--shard", "2/2", "-o", "@"),
    "trt.cache": _text(_TENSORRT_CACHE),
    "plan.toml": _text(_PLAN),
    "uint4.toml": _text(_PLAN.replace('"int8"\nscale = 0.05', '"uint4"\nscale = 0.05')),
    "misspelled.toml": _text(_PLAN.replace('"stem_relu"', '"stem_rleu"')),
    "faulty.onnx": _model(_FAULTY),
    "unsigned.onnx": _model(_UNSIGNED),
    "clipped.onnx": _model(_CLIPPED),
    "codes.onnx": _model(_CODES),
    "spelled.onnx": _model(_SPELLED),
    "dynamic.onnx": _model(_DYNAMIC),
    "channels.onnx": _model(_CHANNELS),
    "before.onnx": _model(_BEFORE),
    "after.onnx": _model(_AFTER),
    "branches.onnx": _model(_BRANCHES),
    "logarithm.onnx": _model(_NEGATIVE_LOG),
    "taken.npz": lambda path: np.savez(path, x=np.float32([[1, -2, 3]]), taken=np.array([True])),
    "known.json": _command("validate", "faulty.onnx", "--write-baseline", "@"),
    "int8.engine.manifest.json": _manifest,
    "check.json": _saved(saved_reports.CHECK),
    "missed.json": _saved(saved_reports.CHECK | {"passed": False, "failures": ["output 'y': min-sqnr is 60 dB"]}),
    "alone.json": _saved(saved_reports.SENSITIVITY | {"model": "another.onnx"}),
    "quantize.json": _saved(saved_reports.QUANTIZE),
    "validate.json": _saved(saved_reports.VALIDATE),
    "layers.json": _text((TRTEXEC / "8.layers.json").read_text(encoding="utf-8")),
    "profile.json": _text((TRTEXEC / "8.profile.json").read_text(encoding="utf-8")),
    "lonely.engine": _text("vtrt and more"),
    "damaged.onnx": _text("this is no model"),
}
"""How each file is made."""


def provide(word: str, folder: Path) -> str | Path:
    """A word of a command line; a name of the table becomes a file in this folder, made if it is not there yet."""
    if word not in FILES:
        return word
    path = folder / word
    if not path.exists():
        FILES[word](path)
    return path
