"""The faults that mutants have: one small mistake each, of the kind that people make.

Those that cosmic-ray knows are taken from it, one for each place: all replacements of one ``<`` say the same about the
tests. What it does not know stands here: a condition left out, an early exit that is never taken, ``min`` for ``max``,
a call left out. Places that tests cannot judge are left alone: type annotations, decorators, assertions, the examples
of rules, and ``strict`` of ``zip``, which is an assertion.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import parso
from cosmic_ray import plugins
from cosmic_ray.operators.operator import Example, Operator
from cosmic_ray.operators.provider import OperatorProvider
from parso.python.tree import Name, Number, PythonNode
from parso.tree import NodeOrLeaf

Position = tuple[tuple[int, int], tuple[int, int]]

FROM_COSMIC_RAY = (
    *(f"ReplaceComparisonOperator_{swap}" for swap in ("Lt_LtE", "LtE_Lt", "Gt_GtE", "GtE_Gt", "Eq_NotEq", "NotEq_Eq")),
    *(f"ReplaceComparisonOperator_{swap}" for swap in ("Is_IsNot", "IsNot_Is")),
    *(f"ReplaceBinaryOperator_{swap}" for swap in ("Add_Sub", "Sub_Add", "Mul_Div", "Div_Mul", "FloorDiv_Mul")),
    *(f"ReplaceBinaryOperator_{swap}" for swap in ("Mod_FloorDiv", "Pow_Mul", "RShift_LShift", "LShift_RShift")),
    *(f"ReplaceBinaryOperator_{swap}" for swap in ("BitOr_BitAnd", "BitAnd_BitOr", "BitXor_BitAnd")),
    *(f"ReplaceUnaryOperator_Delete_{sign}" for sign in ("Not", "USub", "Invert")),
    *("ReplaceTrueWithFalse", "ReplaceFalseWithTrue", "ReplaceBreakWithContinue", "ReplaceContinueWithBreak"),
)

PAIRS = (
    *(("min", "max"), ("any", "all"), ("minimum", "maximum"), ("floor", "ceil"), ("argmin", "argmax")),
    *(("startswith", "endswith"), ("union", "intersection"), ("zeros", "ones"), ("append", "appendleft")),
    *(("issubset", "issuperset"), ("zeros_like", "ones_like"), ("amin", "amax"), ("nanmin", "nanmax")),
)
COUNTERPARTS = {one: other for pair in PAIRS for one, other in (pair, pair[::-1])}
EXITS = ("return", "raise", "break", "continue")
NEVER_JUDGED = ("decorator", "assert_stmt", "tfpdef", "import_from", "import_name")
EXAMPLES = ("VALID", "INVALID")
ASSERTING = ("strict", "slots", "frozen", "kw_only")


def operators() -> "Provider":
    """Our provider, which is the only one from now on."""
    provider = Provider()
    plugins.OPERATOR_PROVIDERS.clear()
    plugins.OPERATOR_PROVIDERS["faults"] = provider
    return provider


class Provider:
    """The operators by name, as cosmic-ray looks them up."""

    def __init__(self) -> None:
        known = OperatorProvider()
        own = (LeftOutCondition, NegatedCondition, NeverTaken, OtherFunction, NextNumber, LeftOutCall, OtherMembership)
        self._operators: dict[str, type[Operator]] = {name: _judged(known[name]) for name in FROM_COSMIC_RAY}
        self._operators |= {each.__name__: each for each in own}

    def __iter__(self) -> Iterator[str]:
        return iter(self._operators)

    def __getitem__(self, name: str) -> type[Operator]:
        return self._operators[name]


def _judged(core: type[Operator]) -> type[Operator]:
    """The operator, without the places that tests cannot judge."""

    class Judged(core):  # type: ignore[misc, valid-type]
        def mutation_positions(self, node: NodeOrLeaf) -> Iterable[Position]:
            return super().mutation_positions(node) if judged(node) else ()

    Judged.__name__ = core.__name__
    return Judged


def judged(node: NodeOrLeaf) -> bool:
    """Whether tests can judge what stands here."""
    inside, parent = node, node.parent
    while parent is not None:
        if _is_left_alone(inside, parent):
            return False
        inside, parent = parent, parent.parent
    return True


def _is_left_alone(inside: NodeOrLeaf, parent: Any) -> bool:
    if parent.type == "annassign":
        return inside not in parent.children[2:]
    if parent.type == "funcdef":
        return inside is parent.annotation
    if parent.type == "parameters":
        return inside.type == "operator"
    if parent.type in ("argument", "expr_stmt"):
        return parent.children[0].get_code().strip() in (ASSERTING if parent.type == "argument" else EXAMPLES)
    return parent.type in NEVER_JUDGED


class _Fault(Operator):
    """Replaces nodes by code."""

    def edits(self, node: Any) -> Sequence[tuple[NodeOrLeaf, str]]:
        """Nodes below ``node``, or itself, and the code to put there."""
        raise NotImplementedError

    def mutation_positions(self, node: Any) -> Iterable[Position]:
        """Where this fault can be made."""
        if judged(node):
            for place, _ in self.edits(node):
                yield place.start_pos, place.end_pos

    def mutate(self, node: Any, index: int) -> NodeOrLeaf:
        """The node with the fault."""
        place, code = self.edits(node)[index]
        new = parso.parse(place.get_first_leaf().prefix + code)
        if place is node:
            return new
        siblings = place.parent.children
        siblings[siblings.index(place)] = new
        return node


class LeftOutCondition(_Fault):
    """``a and b`` becomes ``b``, then ``a``; likewise with ``or``."""

    def edits(self, node: Any) -> Sequence[tuple[NodeOrLeaf, str]]:
        if node.type not in ("and_test", "or_test"):
            return ()
        kept = [[each for each in node.children[::2] if each is not left_out] for left_out in node.children[::2]]
        joined = f" {node.children[1].value} "
        return [(node, joined.join(each.get_code().strip() for each in operands)) for operands in kept]

    @classmethod
    def examples(cls) -> Sequence[Example]:
        return Example("x = a and b", "x = b"), Example("x = a or b or c", "x = a or b", occurrence=2)


class NegatedCondition(_Fault):
    """``if a`` becomes ``if not a``, where nothing in ``a`` can be replaced itself."""

    def edits(self, node: Any) -> Sequence[tuple[NodeOrLeaf, str]]:
        return [
            (condition, f"not {condition.get_code().strip()}")
            for condition in _conditions(node)
            if condition.type in ("name", "atom_expr", "power") and condition.get_code().strip() != "TYPE_CHECKING"
        ]

    @classmethod
    def examples(cls) -> Sequence[Example]:
        return Example("if a: pass", "if not a: pass"), Example("x = a if b else c", "x = a if not b else c")


class NeverTaken(_Fault):
    """``if a: return b`` becomes ``if False: return b``."""

    def edits(self, node: Any) -> Sequence[tuple[NodeOrLeaf, str]]:
        if node.type != "if_stmt" or "else" in (getattr(each, "value", "") for each in node.children):
            return ()
        return [(node.children[1], "False")] if _leaves(node.children[3]) else ()

    @classmethod
    def examples(cls) -> Sequence[Example]:
        return (Example("def f():\n    if a:\n        return b\n", "def f():\n    if False:\n        return b\n"),)


class OtherFunction(_Fault):
    """``min(a, b)`` becomes ``max(a, b)``, and other functions their counterpart."""

    def edits(self, node: Any) -> Sequence[tuple[NodeOrLeaf, str]]:
        if not isinstance(node, Name) or node.value not in COUNTERPARTS or not _is_called(node):
            return ()
        return [(node, COUNTERPARTS[node.value])]

    @classmethod
    def examples(cls) -> Sequence[Example]:
        return Example("x = min(a, b)", "x = max(a, b)"), Example("x = np.floor(a)", "x = np.ceil(a)")


class NextNumber(_Fault):
    """``1`` becomes ``2``: another axis, another index, another limit."""

    def edits(self, node: Any) -> Sequence[tuple[NodeOrLeaf, str]]:
        if not isinstance(node, Number):
            return ()
        whole = node.value.replace("_", "").isdigit()
        return [(node, str(int(node.value) + 1) if whole else f"({node.value} + 1)")]

    @classmethod
    def examples(cls) -> Sequence[Example]:
        return Example("x = 1", "x = 2"), Example("x = 2.5", "x = (2.5 + 1)")


class LeftOutCall(_Fault):
    """A call for its effect alone is left out."""

    def edits(self, node: Any) -> Sequence[tuple[NodeOrLeaf, str]]:
        is_call = isinstance(node, PythonNode) and node.type == "atom_expr" and _calls(node.children[-1])
        if not is_call or node.parent.type != "simple_stmt" or node.parent.children[0] is not node:
            return ()
        return [(node, "pass")]

    @classmethod
    def examples(cls) -> Sequence[Example]:
        return (Example("found.append(1)\n", "pass\n"),)


class OtherMembership(_Fault):
    """``a in b`` becomes ``a not in b``, and the other way round."""

    def edits(self, node: Any) -> Sequence[tuple[NodeOrLeaf, str]]:
        if node.type != "comparison":
            return ()
        swaps = {"in": "not in", "not in": "in"}
        spelled = [(each, " ".join(each.get_code().split())) for each in node.children[1::2]]
        return [(each, swaps[words]) for each, words in spelled if words in swaps]

    @classmethod
    def examples(cls) -> Sequence[Example]:
        return Example("x = a in b", "x = a not in b"), Example("x = a not in b", "x = a in b")


def _conditions(node: Any) -> Sequence[NodeOrLeaf]:
    if node.type == "if_stmt":
        return [after for word, after in zip(node.children, node.children[1:], strict=False) if _is_if(word)]
    if node.type == "while_stmt":
        return [node.children[1]]
    if node.type == "test":
        return [node.children[2]]
    return [node.children[1]] if node.type == "comp_if" else ()


def _is_if(word: NodeOrLeaf) -> bool:
    return getattr(word, "value", "") in ("if", "elif")


def _leaves(suite: Any) -> bool:
    """Whether what is done under a condition ends with leaving a function or a loop."""
    last = suite.children[-1] if suite.type == "suite" else suite
    statement = last.children[0] if last.type == "simple_stmt" else last
    return statement.get_first_leaf().value in EXITS


def _is_called(name: Name) -> bool:
    following = name.get_next_leaf()
    return following is not None and following.value == "("


def _calls(trailer: Any) -> bool:
    return trailer.type == "trailer" and trailer.children[0].value == "("
