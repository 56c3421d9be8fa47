"""Small JSON reports of one model, with the keys that the page reads; in files they have every key."""

import copy
import dataclasses
import json
import typing
from collections.abc import Callable
from pathlib import Path
from types import NoneType
from typing import Any

from qdqtool.quantization.insertion.weight_scales import ALL_POINTS, FEWEST_POINTS, MOST_POINTS
from qdqtool.quantization.ranges.calibrators import names
from qdqtool.reports.saved.reading import _KINDS
from qdqtool.results import Report

Document = dict[str, Any]

_FINDING = {
    "code": "QP101",
    "name": "parameters.scale-value",
    "severity": "warning",
    "effect": "silent",
    "message": "scale is 0",
    "node": "conv",
    "graph": "",
}
_CALIBRATION = {"source": "data.npz", "samples": 8, "random": False, "chosen": "max"}
FLOAT_FILE = {"bytes": 4000, "sha256": "f" * 64, "external_data": []}
QUANTIZED_FILE = {
    "bytes": 1000,
    "sha256": "a" * 64,
    "external_data": [
        {"name": "net.data", "bytes": 5, "sha256": "b" * 64},
        {"name": "big", "bytes": 9, "sha256": None},
    ],
}
QUANTIZE: Document = {
    "schema_version": 1,
    "qdqtool_version": "0.1.0",
    "model": "net.onnx",
    "output": "out/net.int8.onnx",
    "mode": "int8",
    "target": "tensorrt",
    "opset_after": 17,
    "calibration": _CALIBRATION,
    "quantized": [
        {
            "tensor": "x",
            "graph": "",
            "kind": "activation",
            "format": "int8",
            "granularity": "per-tensor",
            "scales": 1,
            "scale_min": 0.1,
            "scale_max": 0.1,
            "consumers": ["conv"],
        }
    ],
    "skipped": [{"node": "fc", "op_type": "Gemm", "graph": "", "reason": "too small"}],
    "degenerate": [],
    "findings": [],
    "accuracy": {
        "samples": 2,
        "held_back": True,
        "outputs": [{"name": "y", "sqnr_db": 40.5, "exact": False, "finite": True, "standard_error_db": None}],
        "problem": "",
    },
    "sizes": {"before": 4000, "after": 1000},
    "nodes": [
        {"name": "conv", "op_type": "Conv", "inputs": [-1], "formats": ["int8"], "weights": "int8"},
        {"name": "relu", "op_type": "Relu", "inputs": [0], "formats": [""], "weights": ""},
        {"name": "fc", "op_type": "Gemm", "inputs": [1], "formats": [""], "weights": ""},
    ],
    "activation_ranges": [
        {
            "tensor": "x",
            "graph": "",
            "format": "int8",
            "min": -3.5,
            "max": 4.0,
            "values": 1000,
            "range": 2.5,
            "clipped": 0.004,
            "method": "mse",
            "reason": "less squared error",
            "shared": False,
            "methods": [
                {"method": "max", "range": 4.0, "clipped": 0.0},
                {"method": "mse", "range": 2.5, "clipped": 0.004},
            ],
            "histogram": {"bin_width": 0.5, "counts": "800 100 50 0*2 3 0 1", "zeros": 46, "beyond": 0},
        }
    ],
    "weight_scales": [
        {
            "tensor": "w",
            "graph": "",
            "format": "int8",
            "axis": 0,
            "channels": 7,
            "grouped": 2,
            "smallest": "0.01 0.002 0 0.04",
            "largest": "0.02 0.002 0.05 0.04",
            "dead": 1,
        }
    ],
}
_STATE = {
    "layers_in_float": 0,
    "layers_in_fallback": 0,
    "quantized_share": 1.0,
    "worst_sqnr_db": 30.25,
    "measured_sqnr_db": 28.5,
    "metric_loss": None,
    "measured_metric_loss": None,
    "finite": True,
    "chosen": False,
}
SEARCH: Document = {
    "min_sqnr_db": 35.0,
    "max_metric_loss": None,
    "metric": "",
    "loss_unit": "",
    "samples": 8,
    "states": [
        _STATE,
        {**_STATE, "layers_in_float": 1, "quantized_share": 0.95, "worst_sqnr_db": 36.5, "measured_sqnr_db": 34.0},
        {
            **_STATE,
            "layers_in_float": 3,
            "quantized_share": 0.75,
            "worst_sqnr_db": 41.5,
            "measured_sqnr_db": 40.5,
            "chosen": True,
        },
        {**_STATE, "layers_in_float": 9, "quantized_share": 0.5, "worst_sqnr_db": 50.0, "measured_sqnr_db": None},
    ],
}
"""The search of ``quantize`` for an accuracy; null where none was asked for."""
CHECK: Document = {
    "qdq": {"total": 2, "checked": 2, "own": 0},
    "schema_version": 1,
    "qdqtool_version": "0.1.0",
    "passed": True,
    "model": "net.int8.onnx",
    "baseline": "net.onnx",
    "reference": {"runtime": "onnxruntime", "version": "1.2.3", "profile": "semantic", "cpu": "a processor"},
    "data": {"source": "data.npz", "samples": 8, "seed": None},
    "gates": [{"name": "own-core", "requires": "bits", "passed": True, "detail": "2 of 2 agree"}],
    "failures": [],
    "outputs": [
        {
            "name": "y",
            "nonfinite": 0,
            "sqnr_db": 41.25,
            "cosine": 0.999,
            "max_abs": 0.5,
            "exact": False,
            "agreement": None,
        }
    ],
    "boundaries": [
        {
            "node": "x_QuantizeLinear",
            "graph": "",
            "tensor": "x",
            "kind": "activation",
            "format": "int8",
            "granularity": "per-tensor",
            "max_steps": 3.0,
            "mean_steps": 0.25,
            "sqnr_db": 33.5,
            "clipped": 5,
            "elements": 100,
        }
    ],
    "warnings": [],
}
SAMPLES: Document = {
    "worst_samples": [
        {
            "number": 17,
            "files": ["cats/17.png"],
            "sqnr_db": 12.5,
            "max_abs": 0.75,
            "zero_reference": False,
            "nonfinite": 0,
        },
        {"number": 3, "files": [], "sqnr_db": 30.0, "max_abs": 0.5, "zero_reference": False, "nonfinite": 0},
    ],
    "sample_sqnr": {
        "samples": 1000,
        "exact": 2,
        "zero_reference": 1,
        "nonfinite": 0,
        "min_db": 12.5,
        "lower_quartile_db": 35.0,
        "median_db": 40.0,
        "upper_quartile_db": 42.0,
        "max_db": 45.0,
    },
}
"""What a check says of the samples of an output; reports of earlier versions say nothing."""
IMAGES: Document = {
    "kind": "images",
    "size": [2, 2],
    "layout": "nchw",
    "channels": "rgb",
    "resize": "none",
    "interpolation": "box",
    "crop_ratio": None,
    "pad_color": None,
    "pixel_range": "0..1",
    "mean": None,
    "std": None,
}
"""How images became samples."""
LIMITED: Document = CHECK | {
    "gates": [*CHECK["gates"], {"name": "min-sqnr", "requires": "at least 30 dB", "passed": True, "detail": "41.25 dB"}]
}
"""A check with a limit on the accuracy."""
BUILD: Document = {
    "schema_version": 1,
    "model": "net.int8.onnx",
    "engine": "net.engine",
    "passed": True,
    "backend": "tensorrt-rtx",
    "version": "1.7",
    "evidence": "aot-dump",
    "targets": ["8.9"],
    "bytes": 5000,
    "planned": {"int8": 1},
    "achieved": {"int8": 1},
    "nodes": [
        {
            "name": "conv",
            "op_type": "Conv",
            "planned": "int8",
            "actual": "int8",
            "graph": "",
            "kernel": "conv_kernel",
            "reason": None,
        }
    ],
    "gates": [{"gate": "int8>=90%", "passed": True, "found": "1 of 1"}],
    "warnings": [],
}
REFUSED: Document = {
    "schema_version": 1,
    "model": "net.int8.onnx",
    "engine": None,
    "passed": False,
    "stage": "parse",
    "message": "the parser refused it",
    "refusals": [{"message": "no such operator", "node": "conv"}],
}
VALIDATE: Document = {
    "schema_version": 1,
    "models": [
        {
            "path": "out/net.int8.onnx",
            "targets": [
                {
                    "target": "tensorrt",
                    "verdict": "pass",
                    "findings": [_FINDING],
                    "checked": ["QP101", "QP102"],
                    "suppressed": 0,
                    "known": 0,
                }
            ],
            "error": None,
        }
    ],
    "summary": {},
    "settings": None,
}
SENSITIVITY: Document = {
    "schema_version": 1,
    "model": "net.onnx",
    "mode": "int8",
    "target": "tensorrt",
    "samples": 2,
    "runs": 9,
    "calibration": _CALIBRATION,
    "weights_only_db": 50.0,
    "activations_only_db": 45.0,
    "nodes": [
        {
            "node": "conv",
            "op_type": "Conv",
            "graph": "",
            "nodes": ["conv", "add"],
            "noise_share": 0.75,
            "worst_sqnr_db": 48.5,
            "gain_db": -0.5,
            "cost_share": 0.9,
        }
    ],
}
INSPECT: Document = {
    "schema_version": 1,
    "model": "net.int8.onnx",
    "bytes": 1000,
    "weight_bytes": {"int8": 600},
    "ir_version": 8,
    "opset_imports": {"ai.onnx": 17},
    "producer": "a test",
    "groups": [
        {"op_type": "QuantizeLinear", "kind": "activation", "format": "int8", "granularity": "per-tensor", "count": 1}
    ],
    "coverage": [{"op_type": "Conv", "total": 1, "quantized": 1, "partly": 0}],
}


def _step(name: str, report: Document | None, state: str = "passed") -> Document:
    return {"step": name, "state": state, "missed": [], "message": None, "report": report}


CONVERT: Document = {
    "schema_version": 1,
    "model": "net.onnx",
    "folder": "out",
    "passed": True,
    "failed": None,
    "measured_on": {"data": "data.npz", "samples": 2, "part": "held back", "reason": ""},
    "steps": [
        _step("quantize", QUANTIZE),
        _step("validate", VALIDATE),
        _step("check", LIMITED),
        _step("build", None, "not asked for"),
    ],
    "files": [{"name": "net.int8.onnx", "what": "model", "bytes": 1000, "sha256": "ab" * 32}],
}


def _layer(name: str, computes: str, milliseconds: float, **more: object) -> Document:
    return {"name": name, "computes": computes, "milliseconds": milliseconds, "conversion": None, **more}


def _total(kind: str, milliseconds: float) -> Document:
    return {"kind": kind, "layers": 1, "milliseconds": milliseconds}


LAYERS: Document = {
    "schema_version": 1,
    "layer_file": "layers.json",
    "profile": "profile.json",
    "model": "m.int8.onnx",
    "evidence": "inspector",
    "runs": 100,
    "milliseconds": 2.0,
    "unmatched_milliseconds": 0.0,
    "planned": {"int8": 2},
    "achieved": {"int8": 1},
    "nodes": [
        {
            "name": "conv",
            "op_type": "Conv",
            "planned": "int8",
            "actual": "int8",
            "kernel": "conv",
            "milliseconds": 1.25,
        },
        {"name": "other", "op_type": "Conv", "planned": "int8", "actual": "unknown", "reason": "no kernel"},
    ],
    "by_type": [_total("int8", 1.25), _total("reformat", 0.5), _total("unknown", 0.25)],
    "conversions": [_total("float32 -> int8, reformat", 0.5)],
    "layers": [
        _layer("copy", "float32", 0.5, reads=["float32"], writes=["int8"], conversion="reformat"),
        _layer("conv", "int8", 1.25, layer_type="CaskConvolution", nodes=["conv"], reads=["int8"], writes=["int8"]),
        _layer("own", "unknown", 0.25),
    ],
}
"""The report of ``inspect`` on layers and profile of trtexec."""
ALL = {
    "quantize": QUANTIZE | {"model_file": FLOAT_FILE, "output_file": QUANTIZED_FILE, "search": SEARCH},
    "check": LIMITED
    | {"outputs": [CHECK["outputs"][0] | SAMPLES], "model_file": QUANTIZED_FILE, "baseline_file": FLOAT_FILE},
    "build": BUILD,
    "validate": VALIDATE,
    "sensitivity": SENSITIVITY,
    "inspect": INSPECT,
}


SECOND_FILE = {"bytes": 900, "sha256": "c" * 64, "external_data": []}
SECOND: dict[str, Document] = {
    "quantize": ALL["quantize"]
    | {
        "mode": "fp8",
        "output": "out/net.fp8.onnx",
        "output_file": SECOND_FILE,
        "sizes": {"before": 4000, "after": 900},
    },
    "check": ALL["check"] | {"model": "out/net.fp8.onnx", "model_file": SECOND_FILE},
    "build": BUILD | {"model": "net.fp8.onnx", "planned": {"fp8": 1}, "achieved": {"fp8": 0}, "bytes": 4400},
    "validate": VALIDATE | {"models": [VALIDATE["models"][0] | {"path": "net.fp8.onnx"}]},
    "sensitivity": SENSITIVITY | {"mode": "fp8", "model_file": FLOAT_FILE},
    "inspect": INSPECT | {"model": "net.fp8.onnx", "bytes": 900},
}
"""Reports of another quantized model of the same float model."""


def edited(document: Document, edit: Callable[[Document], object]) -> Document:
    """A copy of a report with something changed."""
    made = copy.deepcopy(document)
    edit(made)
    return made


def save(folder: Path, **documents: Document) -> list[Path]:
    """Write reports as ``NAME.json``, with every key that all versions have."""
    paths = [folder / f"{name}.json" for name in documents]
    for path, document in zip(paths, documents.values(), strict=True):
        path.write_text(json.dumps(whole(document)))
    return paths


def whole(document: Document) -> Document:
    """A report with every key that its class has no default for; what a test does not name is empty."""
    kind = next((kind.content for kind in _KINDS if kind.keys <= document.keys()), None)
    return document if kind is None else _whole(document, kind)


def _whole(value: Any, hint: Any) -> Any:
    found = [each for each in typing.get_args(hint) if each is not NoneType]
    if Report in (hint, *found) and value is not None:
        return whole(value)
    if isinstance(value, list) and found:
        inner = found[0] if typing.get_origin(hint) is tuple else typing.get_args(found[0])[0]
        return [_whole(each, inner) for each in value]
    kind = next(filter(dataclasses.is_dataclass, (hint, *found)), None)
    if not isinstance(value, dict) or kind is None:
        return value
    hints = typing.get_type_hints(kind)
    required = (each.name for each in dataclasses.fields(kind) if _is_required(each))
    empty = {name: _empty(hints[name]) for name in required if name not in value}
    return {**empty, **{name: _whole(each, hints.get(name)) for name, each in value.items()}}


def _is_required(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _empty(hint: Any) -> Any:
    """The least that a type can hold."""
    origin, options = typing.get_origin(hint), typing.get_args(hint)
    if NoneType in options or hint is NoneType:
        return None
    if origin is typing.Literal:
        return options[0]
    if dataclasses.is_dataclass(hint):
        return _whole({}, hint)
    return [] if origin is tuple else (origin or hint)()


def large(nodes: int) -> dict[str, Document]:
    """The reports of a model with so many nodes."""
    labels = [f"/model/layers.{index}/block/Conv" for index in range(nodes)]

    def spread(entry: Document, **keys: str) -> list[Document]:
        return [
            {**entry, **{key: form.format(label) for key, form in keys.items()}, **_varied(entry, index)}
            for index, label in enumerate(labels)
        ]

    quantized = [
        {**pair, "consumers": [label]}
        for pair, label in zip(spread(QUANTIZE["quantized"][0], tensor="{}_in"), labels, strict=True)
    ]
    effects = [
        {**each, "nodes": [each["node"]], "noise_share": 1 / (index + 2)}
        for index, each in enumerate(spread(SENSITIVITY["nodes"][0], node="{}"))
    ]
    nodes = [
        {
            **QUANTIZE["nodes"][0],
            "name": label,
            "inputs": [at - 1 for at in (index, index - 6) if at >= 0],
            "formats": ["int8", ""],
        }
        for index, label in enumerate(labels)
    ]
    nodes = [{**node, "formats": node["formats"][: len(node["inputs"])]} for node in nodes]
    return {
        "quantize": {
            **QUANTIZE,
            "quantized": quantized,
            "nodes": nodes,
            "activation_ranges": spread(_filled(QUANTIZE["activation_ranges"][0]), tensor="{}_in"),
            "weight_scales": spread(_long(QUANTIZE["weight_scales"][0], len(labels)), tensor="{}_weight"),
        },
        "check": {**CHECK, "boundaries": spread(CHECK["boundaries"][0], tensor="{}_in", node="{}_Q")},
        "build": {**BUILD, "nodes": spread(BUILD["nodes"][0], name="{}", kernel="{}_kernel")},
        "sensitivity": {**SENSITIVITY, "nodes": effects},
    }


def _filled(entry: Document) -> Document:
    """The range of an activation with as many bins and methods as there can be."""
    counts = " ".join(str(10**6 // (index + 1)) for index in range(64))
    methods = [{"method": name, "range": 2.515625, "clipped": 0.001234} for name in names()]
    return {**entry, "methods": methods, "histogram": {**entry["histogram"], "counts": counts}}


def _long(entry: Document, weights: int) -> Document:
    """The scales of a weight with as many points as each of so many weights has."""
    points = max(FEWEST_POINTS, min(MOST_POINTS, ALL_POINTS // weights))
    smallest = " ".join(f"{0.001234 + 0.0001 * (index % 7):.4g}" for index in range(points))
    return {**entry, "channels": 2 * points, "smallest": smallest, "largest": smallest.replace("0.00", "0.01")}


def _varied(entry: Document, index: int) -> Document:
    return {"sqnr_db": 20 + index % 37} if "sqnr_db" in entry else {}
