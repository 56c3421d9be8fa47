"""Changes that move factors across joints, made and made again."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from qdqtool.graph.index.constants import Constants
from qdqtool.graph.index.view import GraphView
from qdqtool.graph.model import Model
from qdqtool.numerics.product import Factors
from qdqtool.preparation.factor_records import decode_factors, encode_factors, joint_site
from qdqtool.preparation.factors.equalization import powers_of_two
from qdqtool.preparation.step import Change, Site
from qdqtool.transforms.joints import Joint, JointKind, find_joints
from qdqtool.transforms.rescale import rescale

LARGEST_FACTOR = 256.0
"""The largest factor, and one over the smallest. Only channels that are all but dead would get others, to make them as
large as the rest; weights that are made so large for them leave float16, and lose what they had in it."""


def rescalings(
    view: GraphView, factors: Mapping[Joint, Factors], done: Sequence[Site], left: Sequence[Site]
) -> Iterator[Change]:
    """The model with these factors, then with the nearest powers of two, which round nothing; as it is without any."""
    if not factors:
        yield Change(model=view.model, left=tuple(left))
        return
    factors = {joint: np.clip(by, 1 / LARGEST_FACTOR, LARGEST_FACTOR) for joint, by in factors.items()}
    for by in (factors, {joint: powers_of_two(exact) for joint, exact in factors.items()}):
        rescaled = rescale(view, by)
        yield Change(
            model=rescaled.model,
            parameters=encode_factors(by),
            done=tuple(done),
            left=tuple(left),
            rescaled=rescaled.report,
            on_trial=True,
        )


def rescaled_again(model: Model, kind: JointKind, parameters: Mapping[str, Any], step: str) -> Change:
    """The model with the factors that a ranges file records.

    Raises:
        UsageError: The parameters are malformed, or the model has no such joints.
    """
    view = GraphView(model)
    joints, _ = find_joints(view, Constants(view), kind)
    factors = decode_factors(parameters, joints, step)
    done = tuple(joint_site(joint, "as recorded") for joint in factors)
    return Change(model=rescale(view, factors).model, parameters=parameters, done=done)
