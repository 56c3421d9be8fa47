"""The models that are judged, by corpus. Each is a file; what is not one yet is written into a folder."""

import contextlib
import io
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx
import onnx.numpy_helper
import onnx.parser

from benchmarks.refused.odd_models import ODD
from qdqtool.numerics.dtypes import Array

SHAPES = {"silero_vad_16k_op15": "input:1x576,state:2x1x128", "yunet_n_dynamic": "input:1x3x320x320"}
"""Shapes for the networks that have open ones."""
MODES = ("int8", "fp8", "int4", "nvfp4", "mxfp8", "int8-weight-only", "fp8-weight-only")
WEIGHT_ONLY = ("int4", "int8-weight-only", "fp8-weight-only")


@dataclass(frozen=True, slots=True)
class Source:
    """One model.

    Attributes:
        corpus: Where it comes from.
        name: Its name there.
        path: Its file.
        values: Values of integer inputs, for those that decide shapes.
        targets: Compute capabilities that it is for, as ``8.6``; empty for the default.
    """

    corpus: str
    name: str
    path: Path
    values: Mapping[str, list[int]] = field(default_factory=dict)
    targets: tuple[str, ...] = ()


def node_tests(folder: Path) -> Iterator[Source]:
    """Yield ONNX's own examples of its operators, with the values that they feed."""
    for number, (name, model, fed) in enumerate(examples()):
        values = {key: [int(each) for each in array.reshape(-1)] for key, array in fed.items()}
        yield Source("node tests", name, _saved(model, folder / f"{number}.onnx"), values)


def stored_inputs(folder: Path) -> Iterator[Source]:
    """Yield those examples that are fed with integers, with these stored as constants, as exporters do."""
    for number, (name, model, fed) in enumerate(examples()):
        if fed and len(fed) < len(model.graph.input):
            stored = with_stored(model, fed)
            yield Source("node tests, integers stored", name, _saved(stored, folder / f"{number}.onnx"))


def examples() -> Iterator[tuple[str, onnx.ModelProto, dict[str, Array]]]:
    """Yield the examples with their small integer inputs."""
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some examples divide by zero on purpose
        cases = collect_testcases(None)
    for case in cases:
        if case.model is not None:
            fed = case.data_sets[0][0] if case.data_sets else ()
            arrays = {
                info.name: np.asarray(value)
                for info, value in zip(case.model.graph.input, fed, strict=False)
                if isinstance(value, np.ndarray | np.generic)
            }
            small = {name: array for name, array in arrays.items() if array.dtype.kind in "iu" and array.size < 64}
            yield case.name, case.model, small


def with_stored(example: onnx.ModelProto, arrays: Mapping[str, Array]) -> onnx.ModelProto:
    """A copy: onnx gives the same objects to everyone in the process who asks for its examples."""
    model = onnx.ModelProto()
    model.CopyFrom(example)
    kept = [info for info in model.graph.input if info.name not in arrays]
    del model.graph.input[:]
    model.graph.input.extend(kept)
    model.graph.initializer.extend(onnx.numpy_helper.from_array(array, name) for name, array in arrays.items())
    return model


def packages(_: Path) -> Iterator[Source]:
    """Yield the ONNX files that the installed packages bring."""
    for top in (Path(each) for each in sys.path if each.endswith("site-packages")):
        for path in sorted(top.rglob("*.onnx")):
            yield Source("packages", str(path.relative_to(top)), path)


def rule_examples(folder: Path) -> Iterator[Source]:
    """Yield the valid and invalid examples of every rule."""
    from qdqtool.linting import rules

    for rule in rules.catalogue():
        for number, example in enumerate((*rule.VALID, *rule.INVALID)):
            targets = tuple(f"{cc // 10}.{cc % 10}" for cc in example.compute_capabilities)
            path = _saved(example.model(), folder / f"{rule.code}.{number}.onnx")
            yield Source("rule examples", f"{rule.code} {example.title}", path, targets=targets)


def variations(folder: Path) -> Iterator[Source]:
    """Yield the models of ``tests/support/corpus``, each of which varies one thing of a Q/DQ graph."""
    from support import corpus

    for group, cases in corpus.GROUPS.items():
        for number, case in enumerate(cases()):
            targets = tuple(f"{cc // 10}.{cc % 10}" for cc in case.compute_capabilities)
            path = _saved(case.model, folder / f"{group.replace(' ', '_')}.{number}.onnx")
            yield Source("variations of Q/DQ", f"{group}: {case.name}", path, targets=targets)


def odd_models(folder: Path) -> Iterator[Source]:
    """Yield the models of ``odd_models.py``."""
    for number, (name, text) in enumerate(ODD.items()):
        model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": 21]> {text}')
        yield Source("odd models", name, _saved(model, folder / f"{number}.onnx"))


def networks(folder: Path, given: Iterable[Path]) -> Iterator[Source]:
    """Yield models as they are, and quantized in each mode."""
    for path in given:
        yield Source("networks", path.stem, path)
        for mode in MODES:
            out = folder / f"{path.parent.name}.{path.stem}.{mode}.onnx"
            if out.exists() or _quantize(path, mode, out):
                yield Source("networks, quantized", f"{path.parent.name} {path.stem} {mode}", out)


def _quantize(path: Path, mode: str, out: Path) -> bool:
    """Write a model for TensorRT for RTX, or else for ONNX; return whether there is one."""
    from qdqtool.__main__ import main as command

    words = ["quantize", str(path), "--quantize-mode", mode, "-o", str(out), "-q"]
    words += ["--input-shapes", SHAPES[path.stem]] if path.stem in SHAPES else []
    words += [] if mode in WEIGHT_ONLY else ["--random-calibration", "--samples", "1"]
    for target in ("tensorrt-rtx", "onnx"):
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            try:
                command([*words, "--target", target])
            except SystemExit as end:
                if not end.code:
                    return True
    return False


def files(given: Iterable[Path]) -> Iterator[Source]:
    """Yield files of the user."""
    for top in given:
        for path in sorted(top.rglob("*.onnx")) if top.is_dir() else [top]:
            yield Source(str(top), str(path.relative_to(top)) if top.is_dir() else path.name, path)


CORPORA: Mapping[str, Callable[[Path], Iterator[Source]]] = {
    "nodes": node_tests,
    "stored": stored_inputs,
    "packages": packages,
    "rules": rule_examples,
    "variations": variations,
    "odd": odd_models,
}


def _saved(model: onnx.ModelProto, path: Path) -> Path:
    path.write_bytes(model.SerializeToString())
    return path
