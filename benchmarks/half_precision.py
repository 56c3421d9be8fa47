"""What TensorRT for RTX builds in float16 and bfloat16: every operator of ONNX, and Q/DQ nodes with scales and Casts.

    python benchmarks/half_precision.py --markdown docs/developers/half_precision.md

The operators are those of ONNX's node tests. A test that builds in float32 is built again with every operand in the
half type, where ONNX allows it. Small integer inputs are stored, as exporters store axes. The Q/DQ models are in
``PATTERNS``. Parser and builder run in a child process (``refused/judge.py``).
"""

import argparse
import tempfile
from collections.abc import Iterator, Sequence
from itertools import groupby, islice, product
from pathlib import Path

import onnx
import onnx.parser
from onnx import TensorProto

from benchmarks.comparison.pages import put
from benchmarks.comparison.tables import markdown
from benchmarks.refused.corpora import examples, with_stored
from benchmarks.refused.judge import Judge, Judged
from benchmarks.refused.messages import general
from qdqtool.engines.tensorrt.inspector import read_dump
from qdqtool.engines.tensorrt.precision import multiplies

FLOATS = {"float32": TensorProto.FLOAT, "float16": TensorProto.FLOAT16, "bfloat16": TensorProto.BFLOAT16}
HALVES = ("float16", "bfloat16")
TARGETS = {"8.6": "SM86", "12.0": "SM120"}
TESTS = 4
"""Most node tests of an operator."""
CODES = {"int8": TensorProto.INT8, "fp8": TensorProto.FLOAT8E4M3FN, "int4 in blocks": TensorProto.INT4}
PAIR = "q = QuantizeLinear <output_dtype = {codes}> ({data}, s)  d = DequantizeLinear <output_dtype = {made}> (q, s)"
WEIGHT = "e = DequantizeLinear <output_dtype = {made}, axis = 0{block}> (w, t)"
PATTERNS = {
    "both quantized": f"{PAIR}  {WEIGHT}  y = MatMul (d, e)",
    "weight only": f"{WEIGHT}  y = MatMul (x, e)",
    "Cast to float32, Q": f"f = Cast <to = 1> (x)  {PAIR}  {WEIGHT}  y = MatMul (d, e)",
    "DQ to float32, Cast to half": f"{PAIR}  {WEIGHT}  c = Cast <to = {{half}}> (d)  b = Cast <to = {{half}}> (e)  "
    "y = MatMul (c, b)",
    "DQ to half, Cast to float32, MatMul, Cast to half": f"{PAIR}  {WEIGHT}  c = Cast <to = 1> (d)  "
    "b = Cast <to = 1> (e)  p = MatMul (c, b)  y = Cast <to = {half}> (p)",
    "DQ to half, Cast to float32, MatMul": f"{PAIR}  {WEIGHT}  c = Cast <to = 1> (d)  b = Cast <to = 1> (e)  "
    "y = MatMul (c, b)",
}
"""MatMuls of ``x``, which has the half type."""


def pattern(name: str, codes: str, half: str, scale: str) -> onnx.ModelProto:
    """Return a model of :data:`PATTERNS` for a number format, the type of ``x`` and the type of the scales."""
    is_blocked = codes.startswith("int4")
    made = "float32" if name.startswith("DQ to float32") else half
    result = "float" if name.endswith("Cast to float32, MatMul") else half
    body = PATTERNS[name].format(
        codes=CODES[codes],
        data="f" if name.endswith("Q") else "x",
        made=FLOATS[made],
        half=FLOATS[half],
        block=", block_size = 16" if is_blocked else "",
    )
    model = onnx.parser.parse_model(
        f'<ir_version: 11, opset_import: ["": 23]> g ({half}[16,64] x) => ({result}[16,32] y) {{ {body} }}'
    )
    numbers = [index % 5 for index in range(64 * 32)]
    weight = onnx.helper.make_tensor("w", CODES[codes], [64, 32], numbers)
    weight_scale = [4, 32] if is_blocked else []
    scales = (
        onnx.helper.make_tensor(*each)
        for each in (
            ("s", FLOATS[scale], [], [0.5]),
            ("t", FLOATS[scale], weight_scale, [0.5] * (128 if is_blocked else 1)),
        )
    )
    model.graph.initializer.extend([weight, *scales])
    return model


def half_twin(example: onnx.ModelProto, half: str) -> onnx.ModelProto | None:
    """Return a model of one node with its float32 operands in a half type; None if ONNX allows it for none of them."""
    model = onnx.ModelProto()
    model.CopyFrom(example)
    [node] = model.graph.node
    schema = onnx.defs.get_schema(node.op_type, model.opset_import[0].version)
    allowed = {*_that_allow(node.input, schema.inputs, half), *_that_allow(node.output, schema.outputs, half)}
    found = False
    for info in (*model.graph.input, *model.graph.output):
        if info.name in allowed and info.type.tensor_type.elem_type == TensorProto.FLOAT:
            info.type.tensor_type.elem_type, found = FLOATS[half], True
    return model if found else None


def _that_allow(
    names: Sequence[str], formals: Sequence[onnx.defs.OpSchema.FormalParameter], half: str
) -> Iterator[str]:
    for index, name in enumerate(names):
        if f"tensor({half})" in formals[min(index, len(formals) - 1)].types:
            yield name


class Bench:
    """The child process, and a file for its models."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "model.onnx"
        self._judge = Judge("tensorrt_rtx", 60)

    def ask(self, model: onnx.ModelProto, target: str) -> Judged:
        """Return what parser and builder make of a model."""
        self._path.write_bytes(model.SerializeToString())
        request = {"model": str(self._path), "targets": [TARGETS[target]], "values": {}, "size": 64, "layers": True}
        found = self._judge.ask(request)
        # Rarely, a build of a GRU waits for ever; the same model then builds in a second.
        return self._judge.ask(request) if found.end == "timeout" else found

    def words(self, model: onnx.ModelProto, target: str) -> str:
        """Return an empty text for a model that builds, else the message that refuses it."""
        return _words(self.ask(model, target))

    def stop(self) -> None:
        """End the child process."""
        self._judge.stop()


def _words(found: Judged) -> str:
    if found.stage == "built":
        return ""
    return found.end or general(found.errors[0]["message"] if found.errors else found.log[0][1])


def operators(bench: Bench) -> Iterator[tuple[str, list[str]]]:
    """Yield each operator that builds in float32, and what refuses its half types, empty where nothing does."""
    ordered = sorted(_node_tests(), key=lambda each: each.graph.node[0].op_type)
    for operator, models in groupby(ordered, lambda each: each.graph.node[0].op_type):
        built = list(islice((model for model in models if not bench.words(model, "12.0")), TESTS))
        if built:
            yield operator, [_refusal(bench, built, half) for half in HALVES]


def _node_tests() -> Iterator[onnx.ModelProto]:
    for _, model, stored in examples():
        node, *others = model.graph.node
        if node.op_type in ("QuantizeLinear", "DequantizeLinear"):
            continue
        typed = (info.type.tensor_type.elem_type for info in (*model.graph.input, *model.graph.output))
        if not others and not node.domain and TensorProto.FLOAT in typed:
            yield with_stored(model, stored) if len(stored) < len(model.graph.input) else model


def _refusal(bench: Bench, models: Sequence[onnx.ModelProto], half: str) -> str:
    twins = [half_twin(model, half) for model in models]
    if None in twins:
        return "not in ONNX"
    found = [bench.words(twin, target) for twin, target in product(filter(None, twins), TARGETS)]
    refused = list(filter(None, found))
    return f"{len(refused)} of {len(found)}: {refused[0]}" if refused else ""


def patterns(bench: Bench) -> Iterator[list[str]]:
    """Yield the rows of the table of patterns: what the MatMul multiplies for each half type."""
    for name, codes in product(PATTERNS, CODES):
        scales: dict[tuple[str, ...], list[str]] = {}
        for scale in FLOATS:
            models = [pattern(name, codes, half, scale) for half in HALVES]
            scales.setdefault(tuple(_multiplied(bench, model) for model in models), []).append(scale)
        yield from ([name, codes, ", ".join(names), *cells] for cells, names in scales.items())


def _multiplied(bench: Bench, model: onnx.ModelProto) -> str:
    """Return the types that the kernel of the MatMul reads, or ``refused``; for each GPU, if they differ."""
    cells = {}
    for target in TARGETS:
        found = bench.ask(model, target)
        kernels = [kernel for kernel in read_dump(found.layers) if multiplies(kernel)]
        read = (types for kernel in kernels for types in (kernel.input_types, kernel.weight_types))
        cells[target] = " x ".join(each for types in read for each in types) if found.stage == "built" else "refused"
    return next(iter(cells.values())) if len({*cells.values()}) == 1 else "; ".join(map(": ".join, cells.items()))


def main() -> None:
    """Write the tables into the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--markdown", type=Path, required=True, help="page with comments between which the tables belong"
    )
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder))
        found = dict(operators(bench))
        rows = list(patterns(bench))
        bench.stop()
    refused = [[name, *(cell or "builds" for cell in cells)] for name, cells in found.items() if any(cells)]
    rest = ", ".join(f"`{name}`" for name, cells in found.items() if not any(cells))
    put(
        arguments.markdown,
        {
            "operators": markdown(["operator", *HALVES], refused),
            "built": f"The other {len(found) - len(refused)} build in both types: {rest}.",
            "patterns": markdown(["nodes", "codes", "scale", *HALVES], rows),
        },
    )


if __name__ == "__main__":
    main()
