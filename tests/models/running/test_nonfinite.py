"""NaN and infinity in an activation: the message names the tensor, the sample and what really made the first one."""

import numpy as np
import onnx
import pytest

import qdqtool as qdq
from qdqtool.errors import UsageError

HEADER = '<ir_version: 9, opset_import: ["" : 18, "my" : 1]>\n'

PLAIN = """
g (float[1,16] x) => (float[1,16] y) <float[16,16] w = {%s}> {
    [first] a = MatMul (x, w)
    [root] r = Sqrt (a)
    [last] y = MatMul (r, w)
}"""

BRANCH = """
g (float[1,16] x, bool c) => (float[1,16] y) <float[16,16] w = {%s}> {
    [choose] z = If (c) <
        then_branch = t () => (float[1,16] u) { [twice] v = Add (x, x)  [root] u = Sqrt (v) },
        else_branch = e () => (float[1,16] i) { [same] i = Identity (x) }
    >
    [last] y = MatMul (z, w)
}"""

INNER_TENSOR = """
g (float[1,16] x, bool c) => (float[1,16] y) <float[16,16] w = {%s}> {
    [choose] y = If (c) <
        then_branch = t () => (float[1,16] u) { [root] v = Sqrt (x)  [inner] u = MatMul (v, w) },
        else_branch = e () => (float[1,16] i) { [same] i = Identity (x) }
    >
}"""

LOOP = """
g (float[1,16] x) => (float[1,16] y)
<float[16,16] w = {%s}, int64 n = {4}, bool go = {1}, float one = {1.0}, float three = {3.0}, float zero = {0.0}> {
    [repeat] z = Loop (n, go, x) <
        body = b (int64 i, bool on, float[1,16] s) => (bool still, float[1,16] next) {
            [keep] still = Identity (on)
            [up] u = Add (s, one)
            [down] d = Sub (three, s)
            [root] r = Sqrt (d)
            [none] o = Mul (r, zero)
            [sum] next = Add (u, o)
        }
    >
    [last] y = MatMul (z, w)
}"""

FUNCTION = """
g (float[1,16] x) => (float[1,16] y) <float[16,16] w = {%s}> {
    [good] p = my.Root (x)
    [less] m = Sub (p, x)
    [bad] q = my.Root (m)
    [last] y = MatMul (q, w)
}
<domain: "my", opset_import: ["" : 18]> Root (a) => (b) { [inner] b = Sqrt (a) }"""

MASKED_ROW = """
g (float[1,16] x) => (float[1,16] y) <float[16,16] w = {%s}, float gone = {-inf}, float cut = {99.0}> {
    [low] far = Less (x, cut)
    [mask] m = Where (far, gone, x)
    [weigh] s = Softmax <axis = -1> (m)
    [last] y = MatMul (s, w)
}"""

BAD_WEIGHT = """
g (float[1,16] x) => (float[1,16] y) <float[16,16] w = {%s}, float broken = {nan}> {
    [add] a = Add (x, broken)
    [last] y = MatMul (a, w)
}"""

MEANT_INFINITY = """
g (float[1,16] x) => (float[1,16] y) <float[16,16] w = {%s}, float gone = {-inf}, float[1,16] cut = {%s}> {
    [low] far = Less (x, cut)
    [mask] m = Where (far, gone, x)
    [weigh] s = Softmax <axis = -1> (m)
    [root] r = Sqrt (x)
    [both] t = Add (s, r)
    [last] y = MatMul (t, w)
}""".replace("cut = {%s}", f"cut = {{{', '.join(['-9'] * 8 + ['9'] * 8)}}}")


def calibrated(tmp_path, text, samples, **more):
    """Calibrate a model in text form, its weight ``w`` filled in; a row grows from the value given to 1.5 times it."""
    identity = ", ".join(str(value) for value in np.eye(16, dtype=np.float32).ravel())
    model = onnx.parser.parse_model(HEADER + text % identity)
    onnx.save(model, tmp_path / "m.onnx")
    np.savez(tmp_path / "d.npz", x=np.outer(samples, np.linspace(1, 1.5, 16)).astype(np.float32), **more)
    return qdq.calibrate(tmp_path / "m.onnx", tmp_path / "d.npz")


@pytest.mark.parametrize(
    ("text", "samples", "more", "message"),
    [
        (PLAIN, [1, 2, -3], {}, "tensor 'r' is nan on sample 2, in 16 of 16 elements; first made by Sqrt 'root'"),
        (
            BRANCH,
            [-1, -2, -3],
            {"c": np.array([False, True, True])},
            "tensor 'z' is nan on sample 1, in 16 of 16 elements; first made by Sqrt 'root', tensor 'z.then_branch/u'",
        ),
        (
            INNER_TENSOR,
            [1, -2],
            {"c": np.array([True, True])},
            "tensor 'y.then_branch/v' is nan on sample 1, in 16 of 16 elements; first made by Sqrt 'root'",
        ),
        (
            LOOP,
            [0.5, -5],
            {},
            "tensor 'z' is nan on sample 0, .*; first made by Sqrt .*, tensor 'z.body/r' in iteration 3",
        ),
        (FUNCTION, [0.25, 4], {}, "tensor 'q' is nan on sample 1, .*; first made by Sqrt 'inner', tensor 'my::Root/b'"),
        (MASKED_ROW, [1], {}, "tensor 's' is nan .*; first made by Softmax 'weigh', .*, from the infinities in 'm'"),
        (BAD_WEIGHT, [1], {}, "tensor 'a' is nan on sample 0, .*; it comes from the constant 'broken'"),
        (MEANT_INFINITY, [1, -1], {}, "tensor 't' is nan on sample 1, .*; first made by Sqrt 'root'"),
    ],
)
def test_origin(tmp_path, text, samples, more, message):
    with pytest.raises(UsageError, match=message):
        calibrated(tmp_path, text, samples, **more)
