"""Read a model from a file, or accept it from memory, with a specific message for each possible fault.

Protobuf returns a string that is not UTF-8 as bytes. Code that compares, sorts or prints it fails far from the cause.
Therefore a model with such a string is refused before other code reads it. A small file may also need too much memory
or time: its names are very long, or its functions call each other too often to be inlined. It is refused too.
"""

from __future__ import annotations

import math
import mmap
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import TypeAlias

import onnx
from google.protobuf.message import DecodeError

from qdqtool.errors import ArgumentError, ModelError
from qdqtool.models.graph.io.external import check_external_data, missing_data
from qdqtool.models.graph.io.output import check_output
from qdqtool.models.graph.io.tensors import is_external, iter_tensors
from qdqtool.models.graph.model import Model
from qdqtool.models.graph.scope import MAIN, ScopePath, display, function_path, node_bodies, walk
from qdqtool.numerics.cores import BOUNDS, LARGE, growth_factor

LONGEST_NAME = 1 << 16
"""Most characters of a name. TensorRT accepts 4,096; millions make every message and comparison slow."""

MOST_NODES = 100_000
"""Most nodes after inlining. ONNX Runtime 1.31.1 takes 25 s to inline the 65,536 nodes of a 2 kB file."""

MOST_COPIES = 100
"""Inlining may multiply the number of nodes of a large model by this factor."""

_MOST_COUNTED = 10**18


def check_growth(what: str, found: int, usual: int, spell: Callable[[int], str] = "{:,}".format) -> None:
    """Refuse a model that exceeds a limit.

    Args:
        what: The quantity that is too large, in words.
        found: Its size.
        usual: The limit, which the user can raise by a factor.
        spell: Converts a size to words.

    Raises:
        ModelError: The size exceeds the limit.
    """
    limit = usual * growth_factor()
    if found > limit:
        raise ModelError(
            f"{what}: {spell(found)}; the limit is {spell(int(limit))}",
            hint=f"if this is intended, set the environment variable {BOUNDS}={math.ceil(found / usual)}, which "
            "multiplies the limits",
        )


def check_text(proto: onnx.ModelProto) -> None:
    """Refuse a model with a text that is not UTF-8, with a name that is too long, or with too many nested calls."""
    strings = [proto.producer_name, proto.producer_version, proto.domain]
    domains = (entry.domain for entry in proto.opset_import)
    _require("the model", [*strings, *domains], [proto.doc_string, *_notes(proto.metadata_props)])
    _check_graph("the main graph", proto.graph)
    for training in proto.training_info:
        _check_graph("a training graph", training.initialization)
        _check_graph("a training graph", training.algorithm)
    for function in proto.functions:
        where = "a local function"
        _require(where, [function.name, function.domain, function.overload])
        _require(where, [*function.input, *function.output, *function.attribute])
        _require(where, [], [function.doc_string, *_notes(function.metadata_props)])
        _require(where, [entry.domain for entry in function.opset_import])
        _check_values(where, function.value_info)
        _check_nodes(where, function.node)
    _check_calls(proto)


def _check_calls(proto: onnx.ModelProto) -> None:
    """Refuse a model that would have too many nodes after inlining; they are counted without inlining."""
    paths = {function_path(function) for function in proto.functions}
    inside: defaultdict[ScopePath, Counter[ScopePath]] = defaultdict(Counter)
    for path, container in walk(proto) if paths else ():
        inside[path[:1] if path[:1] in paths else MAIN].update(map(_called, container.node))
    sizes: dict[ScopePath, int] = {}
    try:
        for path in TopologicalSorter({path: paths & nodes.keys() for path, nodes in inside.items()}).static_order():
            calls = {call: count * sizes.get(call, 0) for call, count in inside[path].items()}
            sizes[path] = min(inside[path].total() + sum(calls.values()), _MOST_COUNTED)
    # A function that calls itself cannot be inlined, and no library tries.
    except CycleError:
        return
    called = inside[MAIN].keys() & paths
    if called:
        worst = max(called, key=lambda path: inside[MAIN][path] * sizes[path])
        usual = max(MOST_NODES, MOST_COPIES * sum(nodes.total() for nodes in inside.values()))
        check_growth(
            f"function '{display(worst)}' calls others so often that inlining gives too many nodes", sizes[MAIN], usual
        )


def _called(node: onnx.NodeProto) -> ScopePath:
    """Return the scope path of the local function that a node calls, if there is one."""
    return function_path(onnx.FunctionProto(domain=node.domain, name=node.op_type, overload=node.overload))


def _check_graph(where: str, graph: onnx.GraphProto) -> None:
    _require(where, [graph.name], [graph.doc_string, *_notes(graph.metadata_props)])
    for values in (graph.input, graph.output, graph.value_info):
        _check_values(where, values)
    for tensor in graph.initializer:
        _check_tensor(where, tensor)
    for sparse in graph.sparse_initializer:
        _check_tensor(where, sparse.values)
        _check_tensor(where, sparse.indices)
    for annotation in graph.quantization_annotation:
        _require(where, [annotation.tensor_name], _notes(annotation.quant_parameter_tensor_names))
    _check_nodes(where, graph.node)


def _check_nodes(where: str, nodes: Iterable[onnx.NodeProto]) -> None:
    for index, node in enumerate(nodes):
        strings = [node.name, node.op_type, node.domain, node.overload, *node.input, *node.output]
        texts = [node.doc_string, *_notes(node.metadata_props)]
        for attribute in node.attribute:
            strings += (attribute.name, attribute.ref_attr_name)
            texts.append(attribute.doc_string)
            if attribute.type == onnx.AttributeProto.TENSOR:
                _check_tensor(f"node {index} of {where}", attribute.t)
        _require(f"node {index} of {where}", strings, texts)
        for _, graph in node_bodies(node):
            _check_graph(f"the body of node {index} of {where}", graph)


def _check_tensor(where: str, tensor: onnx.TensorProto) -> None:
    notes = _notes((*tensor.external_data, *tensor.metadata_props))
    _require(where, [tensor.name], [tensor.doc_string, *notes])


def _check_values(where: str, values: Iterable[onnx.ValueInfoProto]) -> None:
    for value in values:
        dims = value.type.tensor_type.shape.dim
        strings = [value.name, value.type.denotation, *(dim.dim_param for dim in dims)]
        _require(where, strings, [value.doc_string, *_notes(value.metadata_props)])


def _notes(entries: Iterable[onnx.StringStringEntryProto]) -> list[str]:
    return [text for entry in entries for text in (entry.key, entry.value)]


def _require(where: str, names: list[str], texts: Iterable[str] = ()) -> None:
    strings = [*names, *texts]
    try:
        # join raises TypeError for bytes, which protobuf returns for such strings; faster than checking each string.
        is_long = len("".join(strings)) > LONGEST_NAME
    except TypeError:
        damaged = next(text for text in strings if not isinstance(text, str))
        raise ModelError(
            f"{where} has a name or note that is not UTF-8: {damaged[:40]!r}",
            hint="the file is damaged, or was written by a program with another encoding",
        ) from None
    for name in names if is_long else ():
        check_growth(f"{where} has a name of too many characters, '{name[:20]}…'", len(name), LONGEST_NAME)


ModelLike: TypeAlias = str | Path | onnx.ModelProto | Model
"""A model: the path of an ``.onnx`` file, an ``onnx.ModelProto``, or a result of :func:`~qdqtool.load_model`."""


def as_source(model: ModelLike, name: str = "model") -> Path | Model:
    """Return a model in a form that jobs accept: a path, or a model in memory. Nothing is read or copied.

    Raises:
        ArgumentError: The argument is neither a path nor a model.
        ModelError: A ModelProto has no graph, names that are not UTF-8, or weights in files of an unknown folder.
    """
    if isinstance(model, Model):
        return model
    if isinstance(model, str | Path):
        return Path(model)
    if not isinstance(model, onnx.ModelProto):
        raise ArgumentError(
            f"{name} is of type {_type_name(model)}; legal: a path, an onnx.ModelProto, or a qdqtool.Model"
        )
    if not model.HasField("graph"):
        raise ModelError(f"{name} is a ModelProto without a graph")
    check_text(model)
    outside = next((tensor for tensor in iter_tensors(model) if is_external(tensor)), None)
    if outside is not None:
        raise ModelError(
            f"{name} is a ModelProto whose tensor '{outside.name}' is stored in a file, and its folder is not known",
            hint="pass the path of the model instead, or read the weights: "
            "onnx.external_data_helper.load_external_data_for_model(model, folder)",
        )
    return Model(model)


def _type_name(value: object) -> str:
    kind = type(value)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"


_PROBE = 4096
# protobuf cannot parse messages of 2 GiB or more.
_PROTOBUF_LIMIT = 2**31 - 1


def load_model(path: str | Path, *, needs_data: bool = True) -> Model:
    """Read an ONNX model. External weights stay on disk and must be inside the model's folder.

    Args:
        path: The ``.onnx`` file.
        needs_data: Whether external data must exist; otherwise ``missing_data`` of the result lists what is missing.

    Raises:
        ModelError: The file is missing, a folder, unreadable, truncated, or not ONNX (an LFS pointer, HTML, text). Or
            its names are not UTF-8, or its external data is missing or outside the folder.
    """
    path = Path(path)
    data = _read_file(path)
    proto = onnx.ModelProto()
    try:
        proto.ParseFromString(data)  # type: ignore[arg-type]  # its stubs do not know that it takes memoryviews
    except DecodeError:
        _raise_for_content(path, bytes(data[:_PROBE]))
        raise ModelError(f"{path} is truncated or damaged: it does not decode as an ONNX model") from None
    # protobuf decodes many files that are not ONNX without an error: it keeps unknown fields, and text may decode as
    # fields.
    if not proto.HasField("graph") or not (proto.ir_version or proto.opset_import or proto.graph.node):
        _raise_for_content(path, bytes(data[:_PROBE]))
        raise ModelError(f"{path} is not an ONNX model: it decodes without a graph")
    _check_text(path, proto)
    missing = frozenset() if needs_data else missing_data(proto, path.parent)
    stored_outside = check_external_data(proto, path.parent, missing)
    return Model(proto, path, stored_outside=stored_outside, missing_data=missing)


def load_source(model: str | Path | Model, output: str | Path, *inputs: Path) -> Model:
    """Read the input model of a job unless it is in memory, and check that the output is possible and no input."""
    source = model if isinstance(model, Model) else load_model(model)
    check_output(Path(output), [*inputs, *([source.path] if source.path else [])])
    return source


def _check_text(path: Path, proto: onnx.ModelProto) -> None:
    try:
        check_text(proto)
    except ModelError as error:
        raise ModelError(f"{path}: {error.message}", hint=error.hint) from None


def _read_file(path: Path) -> memoryview:
    try:
        if path.is_dir():
            raise ModelError(f"{path} is a folder", hint="name the .onnx file in it")
        if path.is_char_device() or path.is_block_device():
            raise ModelError(f"{path} is a device, not a file", hint="name an .onnx file or a pipe")
        size = path.stat().st_size
        if size > _PROTOBUF_LIMIT:
            raise ModelError(f"{path} has {size} bytes; the limit is 2 GiB", hint="save it with external data")
        data = _mapped(path) if size > LARGE else memoryview(path.read_bytes())
    except FileNotFoundError:
        raise ModelError(f"{path}: no such file") from None
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {error.strerror}") from None
    if not data:
        raise ModelError(f"{path} is empty")
    return data


def _mapped(path: Path) -> memoryview:
    """Map a large file into memory: protobuf copies what it decodes, so reading the file would use its size twice."""
    with path.open("rb") as file:
        try:
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        # Some file systems cannot map files.
        except OSError:
            return memoryview(file.read())


_EXPORT = "export it to ONNX first: "
_OTHER_FILES = (
    (1, b"trt", ("an engine of TensorRT", "`qdqtool inspect ENGINE` and `qdqtool verify-engine ENGINE` read it")),
    (4, b"TFL3", ("a TensorFlow Lite model", f"{_EXPORT}python -m tf2onnx.convert --tflite FILE --output model.onnx")),
    (4, b"ORTM", ("a model in the format of ONNX Runtime", "name the .onnx file that it was made from")),
    (0, b"PK\x03\x04", ("an archive, as PyTorch saves models", f"{_EXPORT}torch.onnx.export(model, inputs, FILE)")),
    (0, b"\x80\x02", ("a pickle, as PyTorch saves weights", f"{_EXPORT}torch.onnx.export(model, inputs, FILE)")),
    (0, b"\x89HDF", ("an HDF5 file, as Keras saves models", f"{_EXPORT}model.export('model.onnx', format='onnx')")),
)
"""For other kinds of files: number and content of their first bytes, their name, and how to get an ONNX model."""


def _raise_for_content(path: Path, start: bytes) -> None:
    head = start.lstrip()
    if head.startswith(b"version https://git-lfs"):
        raise ModelError(
            f"{path} is a Git LFS pointer, not the model itself",
            hint="fetch the model, in its repository: `git lfs pull`",
        )
    if head[:64].lower().startswith((b"<!doctype html", b"<html", b"<?xml", b"<head")):
        raise ModelError(
            f"{path} is a web page saved as a model",
            hint="the download failed; open the link and fetch the file itself",
        )
    found = next((words for at, mark, words in _OTHER_FILES if start[at:].startswith(mark)), None)
    if found is not None:
        raise ModelError(f"{path} is {found[0]}, not an ONNX model", hint=found[1])
    if _looks_like_text(start):
        raise ModelError(f"{path} is a text file, not an ONNX model")


def _looks_like_text(head: bytes) -> bool:
    try:
        text = head.decode()
    except UnicodeDecodeError:
        return False
    return all(char.isprintable() or char in "\r\n\t" for char in text)
