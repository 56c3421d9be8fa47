"""Bias correction: subtract from each bias the shift of the mean output that rounding the weights causes.

Nagel et al., Data-Free Quantization (2019), section 4.2: with ``e = W_q - W``, the mean of ``W_q x`` shifts by ``e
E[x]``. E[x] is measured on calibration data, one mean for each input channel.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from qdqtool.errors import UsageError
from qdqtool.models import ops
from qdqtool.models.graph.edits.edit import AddInitializer, Edit, NodeKey, SetInput
from qdqtool.models.graph.edits.naming import Namer
from qdqtool.models.graph.edits.surgeon import apply_edits
from qdqtool.models.graph.edits.unused import DeadCode
from qdqtool.models.graph.index.constants import Constants
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.view import GraphView, NodeView, Value
from qdqtool.models.graph.io.tensors import make_tensor, nbytes
from qdqtool.models.graph.model import Model, Transformed
from qdqtool.models.graph.scope import ScopePath
from qdqtool.models.ops.support.weights import StoredWeight, WeightProblem, stored_vector, stored_weight
from qdqtool.models.plan import Placement, QuantPlan
from qdqtool.models.running.own_nodes import rounded
from qdqtool.models.transforms.taps import TensorKey, tensor_key
from qdqtool.numerics.cores import LARGE, side_by_side
from qdqtool.numerics.dtypes import Array
from qdqtool.numerics.product import Factors, ProductLayout
from qdqtool.quantization.ranges.types import PreparationStep

BIAS_CORRECTION = "bias-correction"
"""Name under which a ranges file stores the means, among the preparation steps."""

DIGITS = 5
"""Significant digits of a mean; means over so few samples are not more precise."""

Means = Mapping[TensorKey, Factors]
"""Mean of each channel, by tensor."""


class _Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    tensor: str
    scope: list[str]
    means: list[float]


class _Parameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    inputs: list[_Entry]


@dataclass(frozen=True, slots=True, eq=False)
class SwitchedBias:
    """A bias that depends on whether a weight is quantized.

    Attributes:
        site: Number of the weight's placement in the plan.
        scope: Scope of the node that reads the bias.
        node: Output names of that node.
        index: Index of the input of that node that is the bias.
        plain: The bias with the float weight; zeros if the float model has none.
        corrected: Returns the bias for the quantized and dequantized weight.
    """

    site: int
    scope: ScopePath
    node: NodeKey
    index: int
    plain: Array
    corrected: Callable[[Array], Array]


@dataclass(frozen=True, slots=True, eq=False)
class _Site:
    """One product with a stored weight, and the node and input of its bias."""

    weight: StoredWeight
    x: Value
    holder: NodeView
    index: int

    @property
    def is_large(self) -> bool:
        """Whether copies of the weight take much memory."""
        return nbytes(self.weight.tensor) > LARGE


def shortened(means: Means) -> Means:
    """Return the means, rounded to :data:`DIGITS` significant digits."""
    return {key: np.array([float(f"{mean:.{DIGITS}g}") for mean in by]) for key, by in means.items()}


def encode_means(means: Means) -> PreparationStep:
    """Return the means as the preparation step that a ranges file stores."""
    inputs = [{"tensor": name, "scope": list(scope), "means": by.tolist()} for (scope, name), by in means.items()]
    return PreparationStep(BIAS_CORRECTION, {"inputs": inputs})


def decode_means(parameters: Mapping[str, Any]) -> Means:
    """Return the means from the parameters of the step that :func:`encode_means` made.

    Raises:
        UsageError: The values are malformed.
    """
    try:
        entries = msgspec.convert(dict(parameters), _Parameters).inputs
    except msgspec.ValidationError as error:
        reason = str(error).replace("`", "'")
        raise UsageError(f"the ranges have malformed parameters of step '{BIAS_CORRECTION}': {reason}") from None
    return {(tuple(entry.scope), entry.tensor): np.array(entry.means) for entry in entries}


def mean_shift(weight: Array, rounded: Array, layout: ProductLayout, means: Factors) -> Factors:
    """Return how much rounding the weight shifts the mean of each output channel.

    A Conv is treated as if it had no padding: near borders, where it reads zeros, the mean shifts less.

    Returns:
        float64, shape ``(outputs,)``; subtract it from the bias.
    """
    error = np.subtract(layout.canonical(rounded), layout.canonical(weight), dtype=np.float64)
    shift = np.einsum("goik,gi->go", error, means.reshape(layout.groups, -1))
    return np.asarray(shift.reshape(-1), np.float64)


def correct_biases(quantized: Model, before: ModelIndex, plan: QuantPlan, means: Means) -> Transformed[tuple[str, ...]]:
    """Correct the biases of a quantized model.

    A Conv or Gemm without a bias gets one. For a MatMul, the stored vector of a following Add is corrected; without
    such an Add, nothing is corrected. A bias also stays unchanged if the mean of an input is unknown.

    Returns:
        The model, with the labels of the products whose bias was corrected.
    """
    after = GraphView(quantized.fork())
    namer, dead = Namer(after), DeadCode(after)
    nodes = {(node.scope.path, node.key): node for node in after.nodes()}
    edits: list[Edit] = []
    done: list[str] = []
    known = list(_planned(before, plan, means))
    shifts = side_by_side(lambda each: _shift(*each), known, lambda each: each[0].is_large)
    for (site, _, _), shift in zip(known, shifts, strict=True):
        edits += _corrected(site, shift, namer, before.constants)
        dead.drop_use(nodes[site.holder.scope.path, site.holder.key], site.index)
        done.append(site.weight.node.label)
    return Transformed(apply_edits(after.model, edits + dead.edits()) if edits else quantized, tuple(done))


def switched_biases(before: ModelIndex, plan: QuantPlan, means: Means) -> tuple[SwitchedBias, ...]:
    """Return the biases that :func:`correct_biases` corrects, for a model in which each pair can be switched off."""
    numbers = {placement: number for number, placement in enumerate(plan)}
    found: dict[tuple[NodeView, int], SwitchedBias] = {}
    for site, placement, mean in _planned(before, plan, means):
        # Two products may share the Add after them; correct_biases corrects it for the last product.
        found[site.holder, site.index] = _switched(site, numbers[placement], mean, before.constants)
    return tuple(found.values())


def _switched(site: _Site, number: int, means: Factors, constants: Constants) -> SwitchedBias:
    weight, layout = site.weight.read(), site.weight.layout
    value = site.holder.input(site.index)
    stored = constants.array(value) if value is not None else None
    plain = np.zeros(layout.outputs, weight.dtype) if stored is None else stored

    def corrected(quantized: Array) -> Array:
        shift = mean_shift(weight, quantized.reshape(weight.shape), layout, means)
        return plain.astype(np.float64) - shift

    return SwitchedBias(number, site.holder.scope.path, site.holder.key, site.index, plain, corrected)


def _planned(index: ModelIndex, plan: QuantPlan, means: Means) -> Iterator[tuple[_Site, Placement, Factors]]:
    """Yield the products of a plan whose bias can be corrected, with the means of their inputs."""
    nodes = {(node.scope.path, node.key): node for node in index.view.nodes()}
    for placement in plan:
        for use in placement.slot.uses or ():
            node = nodes.get((use.scope, use.node))
            is_weight = node is not None and use.index == 1 and not _reads_mostly_padding(node, index)
            site = _site(node, index.constants) if node is not None and is_weight else None
            mean = means.get(tensor_key(site.x)) if site is not None else None
            if site is not None and mean is not None and len(mean) == site.weight.layout.inputs:
                yield site, placement, mean


def _reads_mostly_padding(node: NodeView, index: ModelIndex) -> bool:
    """Return whether a tap of a Conv reads padding at most positions, so that means of the input say nothing of it."""
    x, weight, made = node.input(0), node.input(1), node.output()
    product = ops.product(node)
    pads = node.attribute("pads") if product is not None and product.is_convolution else None
    shapes = [index.types.full_shape(value) for value in (x, weight, made) if value is not None]
    if not pads or len(shapes) < 3 or None in shapes:
        return False
    before, kernel, after = (shape[2:] for shape in shapes if shape is not None)
    ones = [1] * len(kernel)
    steps, widths = node.attribute("strides", ones), node.attribute("dilations", ones)
    for extent, taps, positions, step, width, pad in zip(before, kernel, after, steps, widths, pads, strict=False):
        if (positions - 1) * step >= extent + 2 * pad:
            return False  # a transposed convolution
        inside = [sum(0 <= at * step + tap * width - pad < extent for at in range(positions)) for tap in range(taps)]
        if 2 * min(inside) < positions:
            return True
    return False


def _site(node: NodeView, constants: Constants) -> _Site | None:
    """Return the product and its bias, or None if the product is of another kind or has no place for a bias."""
    x, product = node.input(0), ops.product(node)
    if x is None or product is None or node.scope.in_function or node.is_parametric:
        return None
    if not product.sums_evenly or product.term_factors(node) != (1, 1):
        return None
    try:
        weight = stored_weight(node, constants)
        holder, index = _bias_behind(node) if product.bias_input is None else (node, product.bias_input)
        if holder.input_name(index):
            stored_vector(holder, index, weight.layout.outputs, constants)
    except WeightProblem:
        return None
    return _Site(weight, x, holder, index)


def _bias_behind(node: NodeView) -> tuple[NodeView, int]:
    output = node.output()
    if output is None or len(output.uses) != 1 or output.is_output or not output.uses[0].node.is_op("Add"):
        raise WeightProblem("no Add follows it")
    return output.uses[0].node, 1 - output.uses[0].index


def _shift(site: _Site, placement: Placement, means: Factors) -> Factors:
    weight = site.weight.read()
    return mean_shift(weight, rounded(weight, placement), site.weight.layout, means)


def _corrected(site: _Site, shift: Factors, namer: Namer, constants: Constants) -> list[Edit]:
    holder = site.holder
    value = holder.input(site.index)
    old, stored = (constants.array(value), constants.direct(value)) if value is not None else (None, None)
    after: Array = -shift if old is None else old.astype(np.float64) - shift
    name = namer.tensor(f"{holder.input_name(site.index) or site.weight.tensor.name + '_bias'}_corrected")
    tensor = make_tensor(name, after, (stored or site.weight.tensor).data_type)
    return [AddInitializer(holder.scope.path, tensor), SetInput(holder.scope.path, holder.key, site.index, name)]
