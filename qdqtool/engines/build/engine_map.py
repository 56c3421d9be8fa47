"""The map of an engine: its kernels in order, their tensors and products, and conversions between floats and codes."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from qdqtool.engines.build.manifest import (
    SUFFIX,
    StoredFile,
    find_manifest,
    fingerprint,
    manifest_path,
    read_manifest,
)
from qdqtool.engines.build.report import Conversions, MappedKernel
from qdqtool.engines.report import Evidence, InputProfile
from qdqtool.engines.tensorrt.kernels import Kernel, KernelTensor
from qdqtool.engines.tensorrt.precision import computes_in, product_kernel
from qdqtool.errors import ModelError
from qdqtool.models import ops
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.view import NodeView, Scope
from qdqtool.models.graph.model import Model
from qdqtool.models.ops.support.weights import multiply_accumulates
from qdqtool.models.report import Work
from qdqtool.models.transforms.specialize import specialize
from qdqtool.results import Report
from qdqtool.samples.calibration_note import CalibrationNote


@dataclass(frozen=True, slots=True)
class Products:
    """The products that the kernels of an engine compute.

    Attributes:
        macs: Multiply-accumulates of a kernel in one run, by its place in the dump; None if the number is unknown.
            Kernels without products are left out.
        nodes_without_kernel: Labels of the nodes that no kernel names.
    """

    macs: Mapping[int, int | None] = field(default_factory=dict)
    nodes_without_kernel: tuple[str, ...] = ()


def find_products(model: Model, kernels: tuple[Kernel, ...], profiles: Sequence[InputProfile]) -> Products:
    """Return the products of a model by the kernel that computes them.

    If a profile accepts a single shape, the input gets this shape. The count of a kernel is unknown in three cases: the
    shape of a product is open; the product is in a Loop, a Scan or a local function, which may run it several times; or
    the operator computes more than a product, such as an LSTM.

    Args:
        model: The model that was built.
        kernels: The kernels of its engine; empty without evidence.
        profiles: The shapes of its dynamic inputs.
    """
    if not kernels:
        return Products()
    places = {id(kernel): at for at, kernel in enumerate(kernels)}
    macs: dict[int, int | None] = {}
    lost = []
    for node, more in node_macs(model, profiles):
        kernel = product_kernel(node, kernels)
        if kernel is None:
            lost.append(node.label)
            continue
        at = places[id(kernel)]
        before = macs.get(at, 0)
        macs[at] = before + more if before is not None and more is not None else None
    return Products(macs, tuple(lost))


def node_macs(model: Model, profiles: Sequence[InputProfile]) -> Iterator[tuple[NodeView, int | None]]:
    """Yield each node that multiplies, with its multiply-accumulates in one run, or None where they are unknown.

    The arguments are those of :func:`find_products`.
    """
    index = ModelIndex.of(at_shapes(model, [each for each in profiles if each.min == each.max]))
    for node in index.view.nodes():
        if _multiplies(node, index):
            yield node, None if _may_run_often(node.scope) else multiply_accumulates(node, index.types.full_shape)


def at_shapes(model: Model, profiles: Sequence[InputProfile]) -> Model:
    """Return a model whose inputs have the shapes for which the kernels of the first profile are chosen."""
    # An empty input cannot be fixed, and the products that depend on it stay unknown.
    fixed = {each.name: each.opt for each in reversed(profiles) if 0 not in each.opt}
    return specialize(model, fixed).model if fixed else model


def _multiplies(node: NodeView, index: ModelIndex) -> bool:
    """Whether a node computes products at run time; the builder folds products of constants."""
    output = node.output()
    if ops.product(node) is None and not ops.traits(node).multiplies_inside:
        return False
    return output is not None and not index.is_constant(output)


def _may_run_often(scope: Scope) -> bool:
    here: Scope | None = scope
    while here is not None:
        if here.is_function or (here.owner is not None and here.owner.op_type != "If"):
            return True
        here = here.parent
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineMap(Report):
    """The kernels of an engine, as its manifest records them.

    Attributes:
        manifest: The manifest file.
        engine: Name of the engine file.
        bytes: Its size.
        model: Name of the model file that it was built from.
        model_sha256: Its sha256, without external data.
        backend: Public id of the builder.
        version: Its version.
        targets: Compute capabilities that the engine is for; empty for the GPU of the machine that built it.
        evidence: The source of the kernels.
        planned: Number of quantized nodes by the type that their Q/DQ request.
        achieved: How many of these nodes run in that type.
        macs: Multiply-accumulates of all kernels and bytes of their constants, by type.
        kernels: The kernels in the order in which they run; empty without evidence.
        conversions: The conversions between floats and codes; None if the evidence cannot prove any.
        calibration: The calibration note of the model; None without a note.
    """

    manifest: str
    engine: str
    bytes: int
    model: str
    model_sha256: str
    backend: str
    version: str
    targets: tuple[str, ...]
    evidence: Evidence
    planned: dict[str, int]
    achieved: dict[str, int]
    macs: Work
    kernels: tuple[MappedKernel, ...]
    conversions: Conversions | None
    calibration: CalibrationNote | None = None


def map_kernels(kernels: Sequence[Kernel], products: Products) -> tuple[MappedKernel, ...]:
    """Return the kernels of a dump with the bytes that each reads and writes, and its multiply-accumulates.

    Records without tensors are left out.

    Args:
        kernels: The kernels of an engine.
        products: The products of the kernels, from :func:`find_products`.
    """
    # Dumps of networks with branches also list records called signal and wait, which touch no tensor: 38 of the 161
    # records of YuNet in RTX.
    return tuple(_map(kernel, at, products) for at, kernel in enumerate(kernels) if kernel.inputs or kernel.outputs)


def _map(kernel: Kernel, at: int, products: Products) -> MappedKernel:
    return MappedKernel(
        name=kernel.name,
        layer_type=kernel.layer_type,
        generated=kernel.is_generated,
        nodes=kernel.nodes,
        inputs=kernel.inputs,
        constants=kernel.constants,
        outputs=kernel.outputs,
        bytes=_bytes_by_type((*kernel.inputs, *kernel.constants, *kernel.outputs)),
        macs=products.macs.get(at, 0),
        computes=computes_in(kernel) if at in products.macs else None,
    )


def sum_macs(kernels: Sequence[MappedKernel], products: Products) -> Work:
    """Return the multiply-accumulates of all kernels by the type that they multiply in, and their constants."""
    by_type: Counter[str] = Counter()
    for kernel in kernels:
        if kernel.computes is not None and kernel.macs is not None:
            by_type[kernel.computes] += kernel.macs
    # Several kernels may read one constant.
    constants = {each.name: each for kernel in kernels for each in kernel.constants if each.bytes is not None}
    return Work(
        by_type=dict(sorted(by_type.items())),
        weight_bytes=_bytes_by_type(tuple(constants.values())) or {},
        unknown_kernels=tuple(kernel.name for kernel in kernels if kernel.macs is None),
        nodes_without_kernel=products.nodes_without_kernel,
    )


def _bytes_by_type(tensors: Sequence[KernelTensor]) -> dict[str, int] | None:
    total: Counter[str] = Counter()
    for tensor in tensors:
        if tensor.bytes is None:
            return None
        total[tensor.type] += tensor.bytes
    return dict(sorted(total.items()))


# Engines of TensorRT for RTX begin with vtrt.
_MAGIC = b"trt"


def has_manifest(path: Path) -> bool:
    """Whether a path has the name of a manifest, or there is a manifest beside it."""
    return path.name.endswith(SUFFIX) or manifest_path(path).is_file()


def is_engine(path: Path) -> bool:
    """Whether a file begins like an engine of TensorRT: with a letter and ``trt``."""
    if not path.is_file():  # reading from a pipe would consume its content
        return False
    try:
        with path.open("rb") as file:
            return file.read(len(_MAGIC) + 1)[1:] == _MAGIC
    except OSError:
        return False


def read_map(path: Path) -> EngineMap:
    """Return the map of an engine.

    Raises:
        ModelError: The manifest is absent, cannot be read, has no map, or belongs to another engine than the one beside
            it.
    """
    file = find_manifest(path)
    if file != path and not file.is_file() and path.is_file():
        raise ModelError(
            f"{path} is an engine without a manifest: {file.name} is missing, and engines do not list kernels",
            hint="put the manifest that build wrote beside the engine, or build the engine again",
        )
    stored = read_manifest(file)
    if file != path:
        _check_engine(path, stored.engine, file)
    return EngineMap(
        manifest=str(file),
        engine=stored.engine.name,
        bytes=stored.engine.bytes,
        model=stored.model.name,
        model_sha256=stored.model.sha256,
        backend=stored.backend,
        version=stored.version,
        targets=stored.targets,
        evidence=stored.evidence,
        planned=stored.planned,
        achieved=stored.achieved,
        macs=stored.macs,
        kernels=stored.kernels,
        conversions=stored.conversions,
        calibration=stored.calibration,
    )


def _check_engine(engine: Path, expected: StoredFile, file: Path) -> None:
    found = fingerprint(engine)
    if found.sha256 != expected.sha256:
        raise ModelError(
            f"{file.name} is the manifest of another engine: sha256 {expected.sha256[:12]}… expected, "
            f"{found.sha256[:12]}… found in {engine.name}",
            hint="build the engine again, or inspect the manifest alone",
        )
