"""Find the branches that a constant condition never takes, which TensorRT does not import."""

import numpy as np

from qdqtool.linting.rules.support.rule_context import RuleContext
from qdqtool.models.graph.index.view import Scope


def dead_scopes(context: RuleContext) -> frozenset[Scope]:
    """Return the branches of Ifs whose condition is a constant that chooses the other one, and all scopes in them."""
    dead: set[Scope] = set()
    for scope in context.view.scopes:
        owner = scope.owner
        if owner is None:
            continue
        if owner.scope in dead:
            dead.add(scope)
        if not owner.is_op("If"):
            continue
        condition = context.array(owner.input(0))
        taken = None if condition is None or condition.size != 1 else bool(np.all(condition))
        branch = scope.path[-1].rpartition(".")[2]
        if taken is not None and branch != ("then_branch" if taken else "else_branch"):
            dead.add(scope)
    return frozenset(dead)
