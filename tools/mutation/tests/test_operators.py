"""Each fault is made where it can be made, and nowhere else."""

import pytest
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.operators.operator import Example

from tools.mutation.operators import FROM_COSMIC_RAY, Provider

PROVIDER = Provider()
OWN = [name for name in PROVIDER if name not in FROM_COSMIC_RAY]
EXAMPLES = [
    pytest.param(name, example, id=f"{name}-{n}") for name in OWN for n, example in enumerate(PROVIDER[name].examples())
]


@pytest.mark.parametrize(("name", "example"), EXAMPLES)
def test_an_example_becomes_what_it_says(name: str, example: Example):
    mutated = mutate_code(example.pre_mutation_code, PROVIDER[name](), example.occurrence)
    assert mutated == example.post_mutation_code


def faults(source: str) -> dict[str, list[str]]:
    """What every operator makes of a source."""
    nodes = list(ast_nodes(get_ast(source)))
    found = {}
    for name in PROVIDER:
        places = [place for node in nodes for place in PROVIDER[name]().mutation_positions(node)]
        if places:
            found[name] = [mutate_code(source, PROVIDER[name](), number) for number in range(len(places))]
    return found


@pytest.mark.parametrize(
    "source",
    [
        "x: int | None = a",
        "def f(x: int | None) -> int | None: ...",
        "@cache(maxsize=4)\ndef f(): ...",
        "assert a < 1 and b",
        "y = zip(a, b, strict=True)",
        "VALID = (Example(3, 1 < 2),)",
        "from a import *",
        "if TYPE_CHECKING:\n    pass\n",
        "f(*a)",
        "x = 'a < 1 and b'",
        "def f(*, x): ...",
    ],
)
def test_what_tests_cannot_judge_is_left_alone(source: str):
    assert faults(source) == {}


def test_a_default_with_an_annotation_is_judged():
    assert faults("x: int | None = 1") == {"NextNumber": ["x: int | None = 2"]}
    assert faults("def f(x: int = 1): ...") == {"NextNumber": ["def f(x: int = 2): ..."]}


def test_one_fault_of_a_kind_for_each_place():
    assert faults("x = a < b <= c") == {
        "ReplaceComparisonOperator_Lt_LtE": ["x = a <= b <= c"],
        "ReplaceComparisonOperator_LtE_Lt": ["x = a < b < c"],
    }
    assert faults("x = not a and b") == {
        "ReplaceUnaryOperator_Delete_Not": ["x =  a and b"],
        "LeftOutCondition": ["x = b", "x = not a"],
    }


def test_an_early_exit_with_an_alternative_is_only_negated():
    assert faults("for a in b:\n    if a:\n        break\n    else:\n        c\n").keys() == {
        "NegatedCondition",
        "ReplaceBreakWithContinue",
    }
    assert faults("for a in b:\n    if a: continue\n")["NeverTaken"] == ["for a in b:\n    if False: continue\n"]
    assert "NeverTaken" not in faults("if a:\n    b = c\n")


def test_only_a_call_that_is_a_statement_is_left_out():
    assert faults("a.b(c)\n") == {"LeftOutCall": ["pass\n"]}
    assert faults("x = a.b(c)\n") == {}


def test_a_name_that_is_not_called_has_no_counterpart():
    assert faults("x = min\n") == {}
    assert faults("x = sorted(a, key=max)\n") == {}
    assert faults("x = np.maximum(a, b)\n") == {"OtherFunction": ["x = np.minimum(a, b)\n"]}
