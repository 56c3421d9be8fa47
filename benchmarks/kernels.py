"""Speed of quantization: GB/s of float32 input, and the ratio to what else could be done with the same bytes.

    python benchmarks/kernels.py [--size 4096] [--repeat 5]

Columns: GB/s of our quantize with given scales; its ratio to copying the array (NumPy, one thread); to our NumPy twin;
to ONNX Runtime's QuantizeLinear with its default threads; and, for int4 in blocks, the ratio of the whole work (find
the scales, quantize, pack) to ONNX Runtime's C++ MatMul quantizer, which does the same. Each figure is the best of the
repeats; what a ratio compares runs in turn, one of each after the other. Codes are compared with the twin's before
anything is timed.
"""

import argparse
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import onnxruntime
from onnx import helper

from qdqtool.numerics import affine, formats, kernels
from qdqtool.numerics.derive import scale_from_tensor
from qdqtool.numerics.dtypes import Array
from qdqtool.numerics.granularity import Blocked, PerAxis, PerTensor
from qdqtool.numerics.packing import pack
from qdqtool.numerics.scheme import QuantScheme

NVFP4_SCALES = QuantScheme(formats.get("float8e4m3fn"), PerTensor())
CASES = {
    "int8 per-axis 0": QuantScheme(formats.get("int8"), PerAxis(0)),
    "int8 per-axis 1": QuantScheme(formats.get("int8"), PerAxis(1)),
    "int4 blocks of 32": QuantScheme(formats.get("int4"), Blocked(1, 32)),
    "int4 blocks of 128": QuantScheme(formats.get("int4"), Blocked(1, 128)),
    "fp8 e4m3 per-axis 0": QuantScheme(formats.get("float8e4m3fn"), PerAxis(0)),
    "fp8 e4m3 per-axis 1": QuantScheme(formats.get("float8e4m3fn"), PerAxis(1)),
    "nvfp4": QuantScheme(formats.get("float4e2m1"), Blocked(1, 16), scale_scheme=NVFP4_SCALES),
}


@contextmanager
def numpy_only() -> Iterator[None]:
    """Keep the compiled kernels out."""
    kept = kernels.wanted
    kernels.wanted = lambda _x: False
    try:
        yield
    finally:
        kernels.wanted = kept


def best(contestants: dict[str, Callable[[], object]], repeat: int) -> dict[str, float]:
    """Seconds of the fastest of ``repeat`` runs of each, run in turn, after one that is not counted."""
    for work in contestants.values():
        work()
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(repeat):
        for name, work in contestants.items():
            begin = time.perf_counter()
            work()
            seconds[name].append(time.perf_counter() - begin)
    return {name: min(found) for name, found in seconds.items()}


def ort_quantize(x: Array, scale: Array, scheme: QuantScheme) -> Callable[[], object] | None:
    """ONNX Runtime's QuantizeLinear of ``x``, its output left where it is; None where it has no such kernel."""
    fmt, granularity = scheme.format, scheme.granularity
    attributes = {"axis": granularity.axis}
    if isinstance(granularity, Blocked):
        attributes["block_size"] = granularity.block_size
    node = helper.make_node("QuantizeLinear", ["x", "s"], ["y"], output_dtype=fmt.onnx_type, **attributes)
    infos = [helper.make_tensor_value_info(n, 1, a.shape) for n, a in (("x", x), ("s", scale))]
    graph = helper.make_graph([node], "g", infos, [helper.make_tensor_value_info("y", fmt.onnx_type, x.shape)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10)
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    except Exception:  # noqa: BLE001 -- ONNX Runtime raises its own types for operators that it lacks
        return None
    binding = session.io_binding()
    binding.bind_cpu_input("x", x)
    binding.bind_cpu_input("s", scale)
    binding.bind_output("y")
    return lambda: session.run_with_iobinding(binding)


def ort_matmul_quantizer(x: Array, block: int) -> Callable[[], object]:
    """ONNX Runtime's symmetric 4-bit quantizer of a MatMul weight; ``x`` has one row for each output column."""
    from onnxruntime.capi import _pybind_state as state

    columns, depth = x.shape
    blocks = -(-depth // block)
    weight = np.ascontiguousarray(x.T)
    codes = np.zeros((columns, blocks, block // 2), np.uint8)
    scales, zeros = np.zeros(columns * blocks, np.float32), np.zeros(columns * ((blocks + 1) // 2), np.uint8)
    return lambda: state.quantize_matmul_4bits(codes, weight, scales, zeros, block, columns, depth, True)


def whole(x: Array, scheme: QuantScheme) -> Array:
    """Find the scales, quantize and pack."""
    params = scale_from_tensor(x, scheme)
    return pack(affine.quantize(x, params.scale, scheme.format, scheme.granularity), scheme.format)


def row(name: str, scheme: QuantScheme, x: Array, repeat: int) -> str:
    """One line of the table."""
    scale = scale_from_tensor(x, scheme).scale
    target = np.empty_like(x)

    def ours() -> Array:
        return affine.quantize(x, scale, scheme.format, scheme.granularity)

    def twin() -> Array:
        with numpy_only():
            return ours()

    if ours().tobytes() != twin().tobytes():
        raise SystemExit(f"{name}: the kernel and its twin disagree")
    contestants = {"ours": ours, "copy": lambda: np.copyto(target, x), "twin": twin}
    if theirs := ort_quantize(x, scale, scheme):
        contestants["ort"] = theirs
    if scheme.format.name == "int4" and isinstance(scheme.granularity, Blocked):
        contestants["matmul"] = ort_matmul_quantizer(x, scheme.granularity.block_size)
        contestants["whole"] = lambda: whole(x, scheme)
    found = best(contestants, repeat)
    ratios = [found[other] / found["ours"] if other in found else None for other in ("copy", "twin", "ort")]
    ratios.append(found["matmul"] / found["whole"] if "whole" in found else None)
    columns = "".join("       -" if ratio is None else f"{ratio:8.2f}" for ratio in ratios)
    return f"{name:22}{x.nbytes / found['ours'] / 1e9:8.2f}{columns}"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=4096, help="rows and columns of the array")
    parser.add_argument("--repeat", type=int, default=5, help="runs, of which the fastest counts")
    options = parser.parse_args()
    x = np.random.default_rng(0).normal(size=(options.size, options.size)).astype(np.float32)
    kernels.WORTH_IT = 0
    print(f"{options.size} x {options.size} float32, {x.nbytes / 1e6:.0f} MB")
    print(f"{'':22}{'GB/s':>8}{'/copy':>8}{'/twin':>8}{'/ORT Q':>8}{'/ORT 4b':>8}")
    for name, scheme in CASES.items():
        print(row(name, scheme, x, options.repeat), flush=True)


if __name__ == "__main__":
    main()
