"""Join the layers of an engine with their times, and compare their types with those that a model plans."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from math import fsum
from typing import Literal

from qdqtool.engines.build.layer_files import LayerFile, LayerProfile
from qdqtool.engines.build.precision_gate import achieved_counts, planned_counts
from qdqtool.engines.report import LayerMap, LayerTotal, MappedLayer, TimedNode
from qdqtool.engines.tensorrt.builder import Built
from qdqtool.engines.tensorrt.kernels import FLOATS, UNKNOWN, Kernel, KernelTensor, is_quantized
from qdqtool.engines.tensorrt.planned_types import planned_nodes
from qdqtool.engines.tensorrt.precision import compare, computes_in, engine_name, is_product, multiplies
from qdqtool.errors import UsageError
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.io.model_file import describe_file
from qdqtool.models.graph.model import Model

REFORMAT: Literal["reformat"] = "reformat"
_COPY = "Reformatting CopyNode for "
_HIDDEN = re.compile(r"myelin|plugin", re.IGNORECASE)
"""Types of layers that compute several operators, or code of others: their inputs do not show the types inside."""


def map_layers(layers: LayerFile, profile: LayerProfile | None, model: Model | None) -> LayerMap:
    """Join layers, their times, and what a model plans.

    Raises:
        UsageError: Profile or model belong to another engine.
    """
    kernels = layers.kernels if model is None else _with_nodes(layers, model)
    times, unmatched = _matched(layers, profile)
    mapped = tuple(map(_mapped, kernels, times))
    lost = [time for _, time in unmatched]
    total = None if profile is None else fsum(time for _, time in profile.times)
    nodes = () if model is None else _nodes(replace(layers, kernels=kernels), mapped, model)
    kinds = [REFORMAT if each.conversion == REFORMAT else each.computes for each in mapped]
    steps = [(_step(each), each) for each in mapped if each.conversion is not None]
    return LayerMap(
        layer_file=str(layers.file),
        profile=None if profile is None else str(profile.file),
        model=None if model is None else str(model.path),
        model_file=None if model is None else describe_file(model),
        evidence=layers.evidence,
        runs=None if profile is None else profile.runs,
        milliseconds=total,
        unmatched=tuple(name for name, _ in unmatched),
        unmatched_milliseconds=None if profile is None else fsum(lost),
        planned=planned_counts(nodes),
        achieved=achieved_counts(nodes),
        nodes=nodes,
        by_type=_totals([*zip(kinds, mapped, strict=True)], lost),
        conversions=_totals(steps),
        layers=mapped,
    )


def _with_nodes(layers: LayerFile, model: Model) -> tuple[Kernel, ...]:
    """Return the layers with the nodes that they compute, and refuse a model of which they compute few."""
    names = {engine_name(node) for node in ModelIndex.of(model).view.nodes()}
    kernels = layers.kernels
    if not any(kernel.nodes for kernel in kernels):
        kernels = tuple(replace(each, nodes=tuple(filter(names.__contains__, _parts(each.name)))) for each in kernels)
    found = {node.partition(" | ")[0] for kernel in kernels for node in kernel.nodes}
    if 2 * len(found & names) < len(found) or not found:
        known = f"{len(found & names)} of the {len(found)} nodes that its layers name are in the model"
        raise UsageError(
            f"{layers.file} is of another model than {model.path}: "
            f"{f'{known}; at least half must be' if found else 'its layers name no node of the model'}",
            hint="give the model from which the engine was built",
        )
    return kernels


def _parts(name: str) -> Iterator[str]:
    """Yield what may be nodes in the name of a layer: ``w + q + Conv_1 + PWN(Relu_2)`` has the nodes Conv_1, Relu_2."""
    for part in re.split(r" \+ |, ", "" if name.startswith(_COPY) else name):
        yield from {part: 0, part.rpartition("PWN(")[2].rstrip(")"): 0}


def _matched(layers: LayerFile, profile: LayerProfile | None) -> tuple[list[float | None], list[tuple[str, float]]]:
    """Return the time of each layer, and the timed layers without counterpart.

    Layers of one name are matched in order. If their numbers differ, none of them gets a time.
    """
    if profile is None:
        return [None] * len(layers.kernels), []
    names = Counter(kernel.name for kernel in layers.kernels)
    timed = Counter(name for name, _ in profile.times)
    known = sum(name in names for name, _ in profile.times)
    if 2 * known < len(profile.times):
        raise UsageError(
            f"{profile.file} is the profile of another engine: {known} of its {len(profile.times)} layers are in "
            f"{layers.file}; at least half must be",
            hint="give layers and profile of one engine",
        )
    waiting = defaultdict[str, list[float]](list)
    for name, time in reversed(profile.times):
        if names[name] == timed[name]:
            waiting[name].append(time)
    found = [waiting[kernel.name].pop() if waiting[kernel.name] else None for kernel in layers.kernels]
    return found, [(name, time) for name, time in profile.times if names[name] != timed[name]]


def _mapped(kernel: Kernel, time: float | None) -> MappedLayer:
    reads, writes = (tuple(dict.fromkeys(kinds)) for kinds in (kernel.input_types, kernel.output_types))
    return MappedLayer(
        name=kernel.name,
        layer_type=kernel.layer_type,
        nodes=kernel.nodes,
        reads=reads,
        constants=tuple(dict.fromkeys(kernel.weight_types)),
        writes=writes,
        computes=_computes(kernel, reads),
        conversion=_conversion(kernel, reads, writes),
        milliseconds=time,
    )


def _computes(kernel: Kernel, reads: Sequence[str]) -> str:
    if _is_hidden(kernel) or UNKNOWN in reads:
        return UNKNOWN
    if _multiplies(kernel):
        return computes_in(kernel)
    # Masks and indices are not what a layer computes in, unless it reads nothing else.
    return _spell([kind for kind in reads if kind in FLOATS or is_quantized(kind)] or reads)


def _multiplies(kernel: Kernel) -> bool:
    # Only the names of generated kernels list what they compute; other layers have names of the model.
    return multiplies(kernel) if kernel.name.startswith("__myl") else is_product(kernel)


def _is_hidden(kernel: Kernel) -> bool:
    return bool(_HIDDEN.search(kernel.layer_type)) or kernel.name.startswith("{ForeignNode")


def _spell(kinds: Sequence[str]) -> str:
    return " + ".join(kinds) or UNKNOWN


def _conversion(kernel: Kernel, reads: Sequence[str], writes: Sequence[str]) -> Literal["reformat", "fused"] | None:
    if kernel.layer_type == "Reformat" or kernel.name.startswith(_COPY):
        return REFORMAT
    known = all(kind in FLOATS or is_quantized(kind) for kind in (*reads, *writes)) and reads and writes
    if not known or _multiplies(kernel) or _is_hidden(kernel):
        return None
    return "fused" if all(map(is_quantized, reads)) != all(map(is_quantized, writes)) else None


def _step(layer: MappedLayer) -> str:
    kind = layer.layer_type if layer.conversion != REFORMAT else REFORMAT
    return f"{_spell(layer.reads)} -> {_spell(layer.writes)}, {kind}"


def _nodes(layers: LayerFile, mapped: Sequence[MappedLayer], model: Model) -> tuple[TimedNode, ...]:
    names = Counter(layer.name for layer in mapped)
    times = {layer.name: layer.milliseconds for layer in mapped if names[layer.name] == 1}
    # What a layer of many operators reads proves no fallback of the product inside.
    opaque = (KernelTensor("", UNKNOWN, None),)
    kernels = tuple(replace(each, inputs=opaque) if _is_hidden(each) else each for each in layers.kernels)
    built = Built(version=UNKNOWN, evidence=layers.evidence, kernels=kernels)
    found = compare(planned_nodes(model), built)
    return tuple(TimedNode(**asdict(node), milliseconds=times.get(node.kernel or "")) for node in found)


def _totals(layers: Sequence[tuple[str, MappedLayer]], lost: Sequence[float] = ()) -> tuple[LayerTotal, ...]:
    """Sum the layers of each kind, the slowest kind first; ``lost`` are times of unknown layers."""
    times = defaultdict[str, list[float]](list, {UNKNOWN: [*lost]} if lost else {})
    for kind, layer in layers:
        times[kind] += [layer.milliseconds] if layer.milliseconds is not None else []
    counts = Counter(kind for kind, _ in layers)
    totals = [
        LayerTotal(kind=kind, layers=counts[kind], milliseconds=fsum(known) if known else None)
        for kind, known in times.items()
    ]
    return tuple(sorted(totals, key=lambda each: (-(each.milliseconds or 0.0), -each.layers, each.kind)))
