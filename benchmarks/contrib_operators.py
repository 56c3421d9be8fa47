"""What TensorRT for RTX makes of every contrib operator (domain com.microsoft) of ONNX Runtime.

    python benchmarks/contrib_operators.py --markdown docs/developers/contrib_operators.md

The models are in ``contrib/models.txt``: one node each, in float32, float16 and bfloat16 where the schema allows the
type. ONNX Runtime loads each model first, so a refusal is no fault of the model. Parser and builder run in a child
process (``refused/judge.py``).
"""

import argparse
import importlib
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx
import onnxruntime
from onnxruntime.capi import onnxruntime_pybind11_state as state

from benchmarks.comparison.pages import put
from benchmarks.comparison.tables import markdown
from benchmarks.contrib import DOMAIN, FLOATS, Variant, variants
from benchmarks.refused.judge import Judge
from qdqtool.engines.tensorrt.parser_errors import strip_noise

TARGETS = ["SM86", "SM120"]
BUILT, NO_TYPE, UNKNOWN = "built", "-", "Plugin not found"
_CONDITION = re.compile(r"^(Assertion failed|Parameter check failed, condition): .*?(: |&& \"|\. )(?=\w)")
# If the CPU has no kernel for float16, ONNX Runtime inserts Casts, and some schemas do not allow float32.
_NO_KERNEL = ("NOT_IMPLEMENTED", "InsertedPrecisionFreeCast")


def has_kernel(model: onnx.ModelProto) -> bool:
    """Return whether ONNX Runtime has a kernel for the CPU; it raises if the model itself is at fault."""
    try:
        onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    except Exception as error:
        if any(each in str(error) for each in _NO_KERNEL):
            return False
        raise
    return True


class Bench:
    """The child process, and a file for its models."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "model.onnx"
        self._judge = Judge("tensorrt_rtx", 60)

    def ask(self, model: onnx.ModelProto) -> str:
        """Return ``built``, or the message of TensorRT that refuses the model."""
        self._path.write_bytes(model.SerializeToString())
        found = self._judge.ask({"model": str(self._path), "targets": TARGETS, "values": {}, "size": 8})
        if found.stage == BUILT:
            return BUILT
        said = found.errors[0]["message"] if found.errors else found.log[0][1] if found.log else ""
        return found.end or said

    def stop(self) -> None:
        """End the child process."""
        self._judge.stop()


def words(said: str) -> str:
    """Return the part of a message that is for people."""
    if "failed to load" in said:
        return "needs a plugin"
    text = _CONDITION.sub("", strip_noise(said))
    return "refused without a reason" if text in {"", "false"} else text


@dataclass(frozen=True, slots=True)
class Row:
    """What became of one model, by float type; ``-`` for a type that the schema does not allow."""

    variant: Variant
    answers: tuple[str, ...]
    on_cpu: bool

    @property
    def known(self) -> bool:
        """Whether the parser knows the name of the operator."""
        return not any(UNKNOWN in answer for answer in self.answers)


def rows(bench: Bench, schemas: Mapping[str, Any]) -> Iterator[Row]:
    """Yield a row for each model."""
    for variant in variants():
        models = [variant.model(schemas[variant.op_type], each) for each in FLOATS]
        kernels = [model is not None and has_kernel(model) for model in models]
        answers = [NO_TYPE if model is None else words(bench.ask(model)) for model in models]
        yield Row(variant, tuple(answers), any(kernels))


def by_name(names: Iterable[str]) -> list[str]:
    """Return those operators whose names the parser knows."""
    trt = importlib.import_module("tensorrt_rtx")
    logger = trt.Logger(trt.Logger.ERROR)
    builder = trt.Builder(logger)
    network = builder.create_network(0)
    parser = trt.OnnxParser(network, logger)
    return [name for name in names if parser.supports_operator(name)]


def main() -> None:
    """Write the tables into the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--markdown", type=Path, required=True, help="page with comments between which tables belong")
    arguments = parser.parse_args()
    onnxruntime.set_default_logger_severity(4)
    schemas = {each.name: each for each in state.get_all_operator_schema() if each.domain == DOMAIN}
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder))
        found = list(rows(bench, schemas))
        bench.stop()
    known = [[f"`{row.variant.op_type}`", row.variant.words, *row.answers] for row in found if row.known]
    unknown = dict.fromkeys(row.variant.op_type for row in found if not row.known)
    rest = sorted(schemas.keys() - {row.variant.op_type for row in found})
    off_cpu = sorted({row.variant.op_type for row in found} - {row.variant.op_type for row in found if row.on_cpu})
    put(
        arguments.markdown,
        {
            "known": markdown(["operator", "model", *FLOATS], known),
            "unknown": f"{len(unknown)} operators: {_listed(unknown)}.",
            "no model": f"{_listed(rest)}. The parser knows {_listed(by_name(rest)) or 'none of these names'}.",
            "no kernel": f"{_listed(off_cpu)}.",
        },
    )


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


if __name__ == "__main__":
    main()
