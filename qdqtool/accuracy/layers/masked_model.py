"""Make a float model with a switch at each pair of a plan, so that one session runs it with any set of pairs.

An activation ``x`` becomes ``Where(mask, DQ(Q(x)), x)``, with the scalar ``mask`` as an input of the model. Its scale
is an input too, so that the same session can run with another scale. A constant is replaced by an input, which gets the
stored values, or the values after quantizing and dequantizing. A bias that is corrected after quantizing is an input
too, since its correction depends on whether its weight is quantized.

A pair may have an alternative: a pair with another format at the same place. An activation then passes two switches,
one after the other, of which at most one is on. For a constant, only the values of the input change.

With all switches off, the model computes the bits of the float model; with all on, the bits of the quantized model.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from qdqtool.accuracy.layers.switch_builder import SwitchBuilder, fed
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.view import GraphView, NodeView, Value
from qdqtool.models.graph.model import Model
from qdqtool.models.graph.scope import ScopePath
from qdqtool.models.plan import Placement, QuantPlan, Slot
from qdqtool.models.running.own_nodes import rounded
from qdqtool.numerics.dtypes import BFLOAT16, Array
from qdqtool.quantization.insertion.apply_plan import PlacedPairs, place_pairs
from qdqtool.quantization.preparation.bias_correction import SwitchedBias

Setting = Mapping[int, Placement | None]
"""The changed sites, by number: None for float, or a placement of the same slot with other parameters. The placement
has the format of the plan; for an activation, it may also have the format of the alternative."""


@dataclass(frozen=True, slots=True, eq=False)
class Site:
    """One pair with its switch.

    Attributes:
        placement: The pair.
        constant: The values that are quantized, as stored; None for an activation.
        mask: Name of the input that switches an activation; empty for a constant.
        scale: Name of the input that takes the scale of an activation; empty if the scale cannot change.
        weight: Name of the input that takes a constant; empty for an activation.
        read: Scope and name of the tensor that the readers of an activation read; empty names for a constant.
    """

    placement: Placement
    constant: Array | None = None
    mask: str = ""
    scale: str = ""
    weight: str = ""
    read: tuple[ScopePath, str] = ((), "")


@dataclass(frozen=True, slots=True, eq=False)
class MaskedModel:
    """A model with a switch at each pair.

    Attributes:
        model: The model. It has the inputs of the float model, and the inputs of :meth:`feeds`.
        sites: The pairs, in the order of the plan.
        biases: The biases that depend on whether a weight is quantized, by the name of their input.
        alternatives: The second switches of activations, by the number of the site.
    """

    model: Model
    sites: tuple[Site, ...]
    biases: Mapping[str, SwitchedBias] = field(default_factory=dict)
    alternatives: Mapping[int, Site] = field(default_factory=dict)
    _made: dict[tuple[str, Placement], Array] = field(default_factory=dict)

    @property
    def all_float(self) -> Setting:
        """The setting with every pair switched off."""
        return dict.fromkeys(range(len(self.sites)))

    def feeds(self, setting: Setting) -> dict[str, Array]:
        """Return the arrays of the inputs that switch pairs."""
        fed: dict[str, Array] = {}
        for number, site in enumerate(self.sites):
            chosen = setting.get(number, site.placement)
            if site.constant is not None:
                fed[site.weight] = self._weight(site, chosen)
                continue
            other = self.alternatives.get(number)
            second = other is not None and chosen is not None and _has_format_of(chosen, other.placement)
            fed |= _switch(site, None if second else chosen)
            if other is not None:
                fed |= _switch(other, chosen if second else None)
        for name, bias in self.biases.items():
            fed[name] = self._bias(name, bias, setting.get(bias.site, self.sites[bias.site].placement))
        return fed

    def _weight(self, site: Site, chosen: Placement | None) -> Array:
        constant = site.constant
        assert constant is not None
        if chosen is None:
            return fed(constant)
        return self._once((site.weight, chosen), lambda: rounded(constant, chosen))

    def _bias(self, name: str, bias: SwitchedBias, chosen: Placement | None) -> Array:
        if chosen is None:
            return fed(bias.plain)
        weight = self._weight(self.sites[bias.site], chosen)
        return self._once((name, chosen), lambda: bias.corrected(weight).astype(bias.plain.dtype))

    def _once(self, key: tuple[str, Placement], make: Callable[[], Array]) -> Array:
        if key not in self._made:
            self._made[key] = fed(make())
        return self._made[key]


def mask_model(source: Model, plan: QuantPlan, biases: Sequence[SwitchedBias] = ()) -> MaskedModel:
    """Make the model with a switch at each pair of a plan.

    Args:
        source: The float model that the plan was made for; it is not changed.
        plan: The pairs.
        biases: The biases that depend on whether a weight is quantized.
    """
    placed = place_pairs(source, plan)
    return _Masker(ModelIndex.of(source), placed, plan).masked(biases)


def with_alternatives(masked: MaskedModel, others: Mapping[int, Placement]) -> MaskedModel:
    """Return the model with a second switch for some activations.

    Args:
        masked: The model; its activations have no second switch yet.
        others: A placement in another format for some sites, by number. For constants the model does not change.
    """
    switched = {number: place for number, place in others.items() if masked.sites[number].mask}
    if not switched:
        return masked
    reads = {number: masked.sites[number].read for number in switched}
    plan = QuantPlan(tuple(replace(place, slot=Slot(*reads[number])) for number, place in switched.items()))
    placed = place_pairs(masked.model, plan)
    second = _Masker(ModelIndex.of(masked.model), placed, plan).masked([])
    return replace(masked, model=second.model, alternatives=dict(zip(switched, second.sites, strict=True)), _made={})


def _switch(site: Site, chosen: Placement | None) -> dict[str, Array]:
    """Return the arrays for the switch of an activation: on with a pair, off with None."""
    fed: dict[str, Array] = {site.mask: np.array(chosen is not None)}
    if site.scale:
        # asarray: arithmetic on an array without axes gives a scalar, which ONNX Runtime refuses.
        fed[site.scale] = np.asarray((chosen or site.placement).params.scale, site.placement.params.scale.dtype)
    return fed


def _has_format_of(one: Placement, other: Placement) -> bool:
    return one.params.scheme.format == other.params.scheme.format


class _Masker(SwitchBuilder):
    def __init__(self, before: ModelIndex, placed: PlacedPairs, plan: QuantPlan) -> None:
        super().__init__(GraphView(placed.model))
        self._before, self._placed, self._plan = before, placed, plan
        self._nodes = {(node.scope.path, node.key): node for node in self._view.nodes()}

    def masked(self, biases: Sequence[SwitchedBias]) -> MaskedModel:
        places = zip(self._plan, self._placed.dequantized, strict=True)
        sites = tuple(self._site(placement, *place) for placement, place in places)
        switched = {name: bias for bias in biases if (name := self._switch_bias(bias))}
        return MaskedModel(self.built(), sites, switched)

    def _site(self, placement: Placement, scope: ScopePath, name: str) -> Site:
        value = self._view.scope(scope).values[name]
        pair = value.producer
        assert pair is not None
        codes = pair.input(0)
        quantizer = codes.producer if codes is not None else None
        if quantizer is not None:
            return self._activation(placement, value, pair, quantizer)
        constant = self._before.constant(self._before.value(placement.slot))
        assert constant is not None
        weight, read = self.add_array_input(value.name, constant)
        self.read([(use.node, use.index) for use in value.uses], read)
        return Site(placement, constant=constant, weight=weight)

    def _activation(self, placement: Placement, value: Value, pair: NodeView, quantizer: NodeView) -> Site:
        scope, always = value.scope.path, self.rename(value, pair)
        mask = self.add_where(scope, (always, quantizer.input_name(0)), value.name)
        return Site(placement, mask=mask, scale=self._scale_input(placement, pair, quantizer), read=(scope, value.name))

    def _scale_input(self, placement: Placement, pair: NodeView, quantizer: NodeView) -> str:
        """Make the scale of a pair an input, or return an empty name if it cannot change, such as a quantized scale."""
        scale, stored = placement.params.scale, pair.input(1)
        if placement.params.scheme.scale_scheme is not None or stored is None or scale.dtype == BFLOAT16:
            return ""
        name, read = self.add_array_input(stored.name, scale)
        self.read([(quantizer, 1), (pair, 1)], read)
        return name

    def _switch_bias(self, bias: SwitchedBias) -> str:
        """Make a bias an input, or return an empty name if the opset upgrade replaced its node."""
        node = self._nodes.get((bias.scope, bias.node))
        if node is None:
            return ""
        name, read = self.add_array_input(node.input_name(bias.index) or f"{bias.node[0]}_bias", bias.plain)
        self.read([(node, bias.index)], read)
        return name
