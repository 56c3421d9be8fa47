"""Find the kernel that computes each product of a model, and count the multiply-accumulates of each kernel."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from qdqtool.engines.tensorrt.builder import InputProfile
from qdqtool.engines.tensorrt.kernels import Kernel
from qdqtool.engines.tensorrt.precision import product_kernel
from qdqtool.models import ops
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.view import NodeView, Scope
from qdqtool.models.graph.model import Model
from qdqtool.models.ops.support.multiply_accumulates import multiply_accumulates
from qdqtool.models.transforms.specialize import specialize


@dataclass(frozen=True, slots=True)
class Products:
    """The products that the kernels of an engine compute.

    Attributes:
        macs: By the place of a kernel in the dump: its multiply-accumulates in one run, None where they are not known.
            A kernel without products is not in it.
        nodes_without_kernel: Labels of the nodes that no kernel names.
    """

    macs: Mapping[int, int | None] = field(default_factory=dict)
    nodes_without_kernel: tuple[str, ...] = ()


def find_products(model: Model, kernels: tuple[Kernel, ...], profiles: Sequence[InputProfile]) -> Products:
    """Return the products of a model by the kernel that computes them.

    Where a profile accepts a single shape, this is the shape of its input. The count of a kernel is not known where
    the shape of a product is open, where a Loop, a Scan or a local function holds it, since these may run it several
    times, and where the operator only multiplies as a part of what it computes, as an LSTM does.

    Args:
        model: The model that was built.
        kernels: The kernels of its engine; empty without evidence.
        profiles: The shapes of its dynamic inputs.
    """
    if not kernels:
        return Products()
    # An empty input cannot be fixed, and the products that depend on it stay unknown.
    fixed = {each.name: each.opt for each in profiles if each.min == each.max and 0 not in each.opt}
    index = ModelIndex.of(specialize(model, fixed).model if fixed else model)
    places = {id(kernel): at for at, kernel in enumerate(kernels)}
    macs: dict[int, int | None] = {}
    lost = []
    for node in index.view.nodes():
        if not _multiplies(node, index):
            continue
        kernel = product_kernel(node, kernels)
        if kernel is None:
            lost.append(node.label)
            continue
        at = places[id(kernel)]
        before, more = macs.get(at, 0), _count(node, index)
        macs[at] = before + more if before is not None and more is not None else None
    return Products(macs, tuple(lost))


def _multiplies(node: NodeView, index: ModelIndex) -> bool:
    """Whether a node computes products at run time; the builder folds those of constants."""
    output = node.output()
    if ops.product(node) is None and not ops.traits(node).multiplies_inside:
        return False
    return output is not None and not index.is_constant(output)


def _count(node: NodeView, index: ModelIndex) -> int | None:
    if _may_run_often(node.scope):
        return None
    return multiply_accumulates(node, index.types.full_shape)


def _may_run_often(scope: Scope) -> bool:
    here: Scope | None = scope
    while here is not None:
        if here.is_function or (here.owner is not None and here.owner.op_type != "If"):
            return True
        here = here.parent
    return False
