"""Folding BatchNormalizations into the layers in front of them."""

from collections.abc import Iterator, Mapping
from typing import Any

from qdqtool.graph.model import Model
from qdqtool.preparation.step import Change, Site
from qdqtool.running.channel_statistics import ChannelData
from qdqtool.transforms.batchnorm import fold_batchnorm


class BatchNormStep:
    """Every BatchNormalization that directly follows a layer with stored weights."""

    name = "batchnorm"

    def changes(self, model: Model, data: ChannelData) -> Iterator[Change]:
        """The fold; it needs no data."""
        del data
        yield self.replay(model, {})

    def replay(self, model: Model, parameters: Mapping[str, Any]) -> Change:
        """The fold; it has no parameters."""
        del parameters
        folded = fold_batchnorm(model)
        sites = (Site(name=n.node, graph=n.graph, note=f"folded into {n.op_type} '{n.into}'") for n in folded.report)
        return Change(model=folded.model, done=tuple(sites))
