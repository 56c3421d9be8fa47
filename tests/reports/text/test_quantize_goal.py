"""How an accuracy that was asked for was reached, in text."""

from dataclasses import replace

import pytest
from support.printed import ESCAPED, HOSTILE, printed

from qdqtool.accuracy.search.goal_report import FloatLayer, GoalReport
from qdqtool.reports.text.quantize import SHOWN_STATES, print_goal


def layer(name: str, share: float, more: int = 0) -> FloatLayer:
    return FloatLayer(node=name, op_type="Conv", nodes=(name, *(f"{name}_{at}" for at in range(more))), share=share)


def goal(*layers: FloatLayer, worst: float | None = 21.04) -> GoalReport:
    return GoalReport(
        min_sqnr_db=30.5,
        layers=20,
        left=layers,
        float_share=sum(each.share for each in layers),
        worst_without_db=worst,
        worst_db=31.0,
        samples=8,
        runs=100,
        curve=(),
    )


def test_the_layers_are_sorted_by_cost_with_the_nodes_beside_them():
    text = printed(print_goal, goal(layer("a", 0.01), layer("b", 0.2, 1), layer(HOSTILE, 0.03)))
    head = "3 of 20 layers unquantized for 30.5 dB, 24.0% of the cost; with all quantized the worst output keeps"
    assert text == f"{head} 21.0 dB\n  Conv b (+1): 20.0%\n  Conv {ESCAPED}: 3.0%\n  Conv a: 1.0%\n"


def test_the_level_of_each_layer_is_named_where_there_is_a_fallback():
    plain = goal(layer("a", 0.2))
    text = printed(print_goal, replace(plain, fallback="int8", finer=(layer("b", 0.01, 1),), finer_share=0.01))
    head = "1 of 20 layers unquantized and 1 in int8 for 30.5 dB, 21.0% of the cost; with all quantized the worst"
    assert text == f"{head} output keeps 21.0 dB\n  Conv a: float, 20.0%\n  Conv b (+1): int8, 1.0%\n"
    text = printed(print_goal, replace(plain, fallback="fp8"))
    assert "1 of 20 layers unquantized and 0 in fp8 for 30.5 dB" in text


def test_many_layers_are_listed_on_request():
    many = goal(*(layer(f"l{at}", 0.05) for at in range(SHOWN_STATES + 3)))
    short, long = printed(print_goal, many), printed(print_goal, many, verbose=True)
    assert short.count("Conv") == SHOWN_STATES
    assert "3 more" in short
    assert long.count("Conv") == SHOWN_STATES + 3


@pytest.mark.parametrize(
    ("worst", "told"),
    [(None, "keeps no noise"), (float("-inf"), "is NaN or infinite somewhere"), (1.26, "keeps 1.3 dB")],
)
def test_the_accuracy_without_layers_in_float(worst: float | None, told: str):
    assert f"with all quantized the worst output {told}\n" in printed(print_goal, goal(worst=worst))
