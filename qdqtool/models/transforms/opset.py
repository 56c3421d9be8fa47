"""Raise the opset and the IR version of a model."""

from collections import Counter
from collections.abc import Iterator

import onnx
from onnx import AttributeProto

from qdqtool.errors import ModelError, UsageError
from qdqtool.models.graph.edits.edit import Edit
from qdqtool.models.graph.edits.naming import Namer
from qdqtool.models.graph.edits.surgeon import apply_edits
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.view import DEFAULT_DOMAINS, GraphView, Scope
from qdqtool.models.graph.model import Model, Transformed
from qdqtool.models.graph.scope import display, function_path
from qdqtool.models.transforms.opset_conversion import convert_scope

NEWEST_IR = 13
"""The newest IR version that ONNX Runtime loads (measured with 1.31)."""


def require_known_opset(model: Model) -> None:
    """Refuse a model whose opset the installed onnx package does not know.

    Raises:
        ModelError: The model imports a newer version of the default domain than onnx defines.
    """
    opset, newest = model.default_opset(), onnx.defs.onnx_opset_version()
    if opset > newest:
        raise ModelError(
            f"the model imports opset {opset}; onnx {onnx.__version__} knows versions up to {newest}",
            hint="export at a lower opset, or update the onnx package",
        )


def upgrade_opset(model: Model, version: int) -> Transformed[None]:
    """Raise the default domain of a model to ``version``; return the same model if its version is not lower.

    onnx's version converter decides how each node changes. Only these changes are copied to the model, because the
    converter drops local functions, metadata, annotations, training information and documentation. Local functions and
    subgraphs of operators of other domains are converted separately. Where the converter is known to change the meaning
    of an operator, the result is corrected or refused. The IR version is raised as the opset requires, but not above
    the newest that ONNX Runtime loads.

    Args:
        model: The model; it is not changed.
        version: The requested version of the default domain.

    Raises:
        UsageError: onnx does not know this version.
    """
    newest = onnx.defs.onnx_opset_version()
    if version > newest:
        raise UsageError(f"opset {version} is unknown; the onnx package installed here knows versions up to {newest}")
    if version <= model.default_opset():
        return Transformed(model, None)
    index = ModelIndex.of(model)
    _check_distinct_scopes(index.view)
    _check_dense(index.view)
    result = apply_edits(model, _conversion_edits(index, version))
    _raise_imports(result.proto, version)
    needed = onnx.helper.find_min_ir_version_for([onnx.helper.make_opsetid("", version)], ignore_unknown=True)
    result.proto.ir_version = max(result.proto.ir_version, min(needed, NEWEST_IR))
    return Transformed(result, None)


def _conversion_edits(index: ModelIndex, version: int) -> list[Edit]:
    namer = Namer(index.view)
    functions = {function_path(function): function for function in index.model.proto.functions}
    edits: list[Edit] = []
    for scope in index.view.scopes:
        importer = functions.get(scope.path[:1], index.model.proto)
        imports_it = any(entry.domain in DEFAULT_DOMAINS for entry in importer.opset_import)
        if imports_it and _is_converted_alone(scope) and scope.opset < version:
            edits += convert_scope(index, scope, importer.opset_import, namer, version)
    return edits


def _is_converted_alone(scope: Scope) -> bool:
    """Return whether the converter converts the scope separately from the node that owns it."""
    return scope.owner is None or bool(scope.owner.domain)


def _raise_imports(proto: onnx.ModelProto, version: int) -> None:
    importers: list[onnx.ModelProto | onnx.FunctionProto] = [proto, *proto.functions]
    for importer in importers:
        entries = [entry for entry in importer.opset_import if entry.domain in DEFAULT_DOMAINS]
        for entry in entries:
            entry.version = max(entry.version, version)
        if not entries and importer is proto:
            importer.opset_import.add(domain="", version=version)


def _check_distinct_scopes(view: GraphView) -> None:
    counts = Counter(scope.path for scope in view.scopes)
    twice = next((path for path, count in counts.items() if count > 1), None)
    if twice is not None:
        raise ModelError(f"the model defines '{display(twice)}' twice, as a function or as a body of one node")


def _check_dense(view: GraphView) -> None:
    name = next((name for scope in view.scopes for name in _sparse_names(scope)), None)
    if name is not None:
        raise ModelError(
            f"the opset cannot be raised: '{name}' is a sparse constant, which onnx's version converter refuses",
            hint="store it as a dense initializer, or export the model again with a later opset",
        )


def _sparse_names(scope: Scope) -> Iterator[str]:
    if isinstance(scope.container, onnx.GraphProto):
        yield from (sparse.values.name for sparse in scope.container.sparse_initializer)
    for node in scope.nodes:
        if any(attribute.type == AttributeProto.SPARSE_TENSOR for attribute in node.proto.attribute):
            yield node.key[0] if node.key else node.label
