"""The share of wrong scales that ``validate`` finds without data: QN504 on models with one seeded fault each.

    python benchmarks/range_faults.py [MODEL.onnx ...] [--factor 1000]

Without models: the sample models, quantized by qdqtool to int8 and fp8 and by ONNX Runtime to uint8 and int8. In each
model the scale of one activation pair after another is multiplied by the factor, then divided by it; so is the scale of
each stored weight, whose codes stay as they are. Prints a line of Markdown for each model, and how many findings the
model has without a fault. Deterministic: the figures depend on the models alone.
"""

import argparse
import logging
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

from qdqtool.jobs.quantize import QuantizeOptions, quantize_model
from qdqtool.linting import rules
from qdqtool.linting.rules import RuleContext
from qdqtool.models import targets
from qdqtool.models.graph.index.qdq import QdqNode
from qdqtool.models.graph.model import Model
from qdqtool.quantization.planning.recipe import Recipe

SAMPLES = Path(__file__).resolve().parents[1] / "sample_models"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", type=Path)
    parser.add_argument("--factor", type=float, default=1000)
    arguments = parser.parse_args()
    times, over = f"times {arguments.factor:g}", f"over {arguments.factor:g}"
    print(f"| model | pairs | {times} | {over} | weights | {times} | {over} | without a fault |")
    print("|---|---|---|---|---|---|---|---|")
    total = np.zeros(7, int)
    with tempfile.TemporaryDirectory() as folder:
        for name, path in [(each.stem, each) for each in arguments.models] or samples(Path(folder)):
            counts = seeded(onnx.load(path), arguments.factor)
            total += counts
            print(row(name, counts), flush=True)
    print(row("all", total))


def row(name: str, counts: np.ndarray) -> str:
    """A line of the table."""
    pairs, larger, smaller, weights, heavier, lighter, clean = counts
    shares = [f"{count} ({count / of:.0%})" if of else "" for count, of in ((larger, pairs), (smaller, pairs))]
    heavy = [f"{count} ({count / of:.0%})" if of else "" for count, of in ((heavier, weights), (lighter, weights))]
    return f"| {name} | {pairs} | {' | '.join(shares)} | {weights} | {' | '.join(heavy)} | {clean} |"


def seeded(model: onnx.ModelProto, factor: float) -> np.ndarray:
    """Pairs, faults found with larger and smaller scales, the same of weights, and findings without a fault."""
    places = list(scales(model))
    counts = np.zeros(7, int)
    counts[6] = findings(model)
    for kind, constant in places:
        at = 0 if kind == "activation" else 3
        counts[at] += 1
        before = numpy_helper.to_array(constant)
        for index, by in ((1, factor), (2, 1 / factor)):
            constant.CopyFrom(numpy_helper.from_array((before * by).astype(before.dtype), constant.name))
            counts[at + index] += findings(model) > counts[6]
        constant.CopyFrom(numpy_helper.from_array(before, constant.name))
    return counts


def findings(model: onnx.ModelProto) -> int:
    """How many findings QN504 has."""
    return len(list(rules.get("QN504").run(RuleContext(Model(model)), targets.get("tensorrt-rtx"))))


def scales(model: onnx.ModelProto) -> Iterator[tuple[str, onnx.TensorProto]]:
    """Kind and scale of each pair of an activation, and of each stored weight; each gets a constant of its own."""
    context = RuleContext(Model(model))
    for entry in [*context.qdq.nodes]:
        if entry.data is None or entry.scale is None or not context.constants.is_constant(entry.scale):
            continue
        is_weight = context.constants.is_constant(entry.data)
        if entry.is_quantize and not is_weight:
            yield "activation", own(model, context, [entry, *context.qdq.readers(entry)])
        elif (
            not entry.is_quantize
            and is_weight
            and len(entry.data.initializer.dims if entry.data.initializer else ()) > 1
        ):
            yield "weight", own(model, context, [entry])


def own(model: onnx.ModelProto, context: RuleContext, entries: list[QdqNode]) -> onnx.TensorProto:
    """Give these nodes a scale that nobody else reads."""
    array, name = context.array(entries[0].scale), f"range_faults:{entries[0].node.proto.output[0]}"
    assert array is not None
    model.graph.initializer.append(numpy_helper.from_array(np.asarray(array), name))
    for entry in entries:
        entry.node.proto.input[1] = name
    return model.graph.initializer[-1]


def samples(folder: Path) -> Iterator[tuple[str, Path]]:
    """The sample models, as this package and as ONNX Runtime quantize them."""
    logging.disable(logging.WARNING)
    for source in sorted(SAMPLES.glob("*/model.onnx")):
        data = source.parent / "calibration.npz"
        for mode in ("int8", "fp8"):
            path = folder / f"{source.parent.name}-{mode}.onnx"
            quantize_model(source, data, path, QuantizeOptions(recipe=Recipe(quantize_mode=mode)))
            yield f"{source.parent.name}, {mode}", path
        for kind in ("QUInt8", "QInt8"):
            path = folder / f"{source.parent.name}-{kind}.onnx"
            by_onnx_runtime(source, data, path, kind)
            yield f"{source.parent.name}, ONNX Runtime {kind}", path


def by_onnx_runtime(source: Path, data: Path, path: Path, kind: str) -> None:
    """Quantize with ONNX Runtime's quantizer: all operators, activations of that type, int8 weights."""
    from onnxruntime.quantization import CalibrationDataReader, QuantType, quantize_static

    class Reader(CalibrationDataReader):
        def __init__(self) -> None:
            arrays, names = np.load(data), {each.name for each in onnx.load(source).graph.input}
            self.feeds = iter([{name: arrays[name][:32] for name in arrays.files if name in names}])

        def get_next(self) -> dict[str, np.ndarray] | None:
            return next(self.feeds, None)

    options = {"activation_type": QuantType[kind], "weight_type": QuantType.QInt8, "per_channel": kind == "QInt8"}
    quantize_static(source, path, Reader(), **options)


if __name__ == "__main__":
    main()
