"""Pairs on what is read as a shape or an index, through the operators that compute such numbers."""

import pytest
from support.fixing import located, read

from qdqtool.linting.rules import RuleContext

CODE = "QL306"


def model(nodes: str) -> RuleContext:
    return read(
        f"""
        agraph (float[3] x, float[3] x2) => (float[3] y)
        <float[4] table = {{0, 10, 20, 30}}, float s = {{0.5}}, int8 z = {{0}}, int64[1] shape = {{3}},
         float one = {{1}}> {{
            q = QuantizeLinear (x, s, z)
            d = DequantizeLinear (q, s, z)
            q2 = QuantizeLinear (x2, s, z)
            d2 = DequantizeLinear (q2, s, z)
            {nodes}
        }}
        """
    )


def said(nodes: str) -> list[tuple[str | None, str]]:
    found = [finding for finding, _ in located(CODE, model(nodes))]
    assert all(
        (finding.found, finding.expected, finding.effect) == ("a pair", "no pair", "silent") for finding in found
    )
    return [(finding.tensor, finding.message) for finding in found]


def read_by(node: str, name: str, tensor: str = "d") -> tuple[str, str]:
    op_type = node.partition(" ")[0]
    return tensor, f"{op_type} '{node}' reads the output of this DQ as '{name}', a shape, index or condition"


GATHER = read_by("Gather -> y", "n")


@pytest.mark.parametrize(
    ("nodes", "found"),
    [
        ("n = Cast <to = 7> (d)  y = Gather (table, n)", [GATHER]),
        ("n = Cast <to = 7> (x)  y = Gather (d, n)", []),
        ("r = Reshape (d, shape)  n = Cast <to = 7> (r)  y = Gather (table, n)", [GATHER]),
        ("r = Slice (d, shape, shape)  n = Cast <to = 7> (r)  y = Gather (table, n)", [GATHER]),
        ("r = Reshape (x, d)  n = Cast <to = 7> (r)  y = Gather (table, n)", [read_by("Reshape -> r", "d")]),
        ("f = Floor (d)  n = Cast <to = 7> (f)  y = Gather (table, n)", [GATHER]),
        ("f = Add (one, d)  n = Cast <to = 7> (f)  y = Gather (table, n)", [GATHER]),
        ("f = Add (d, d2)  n = Cast <to = 7> (f)  y = Gather (table, n)", [GATHER, read_by("Gather -> y", "n", "d2")]),
        ("f = Sin (d)  n = Cast <to = 7> (f)  y = Gather (table, n)", []),
        ("f = Cast <to = 9> (d)  y = Where (f, x, x2)", [read_by("Where -> y", "f")]),
    ],
)
def test_what_is_followed(nodes: str, found: list[tuple[str, str]]):
    assert said(nodes) == found


def test_a_pair_is_reported_once():
    """Two Gathers read the same indices, and a third one reads what is computed from them."""
    nodes = """
        n = Cast <to = 7> (d)
        y = Gather (table, n)
        y2 = Gather (table, n)
        m = Cast <to = 6> (d)
        y3 = Gather (table, m)
    """
    assert said(nodes) == [GATHER]


@pytest.mark.parametrize("op_type", ["Transpose", "Floor"])
@pytest.mark.parametrize(("length", "found"), [(15, True), (16, False)])
def test_a_path_is_followed_for_16_steps(length: int, op_type: str, *, found: bool):
    steps = "  ".join(f"t{step + 1} = {op_type} (t{step})" for step in range(length - 1))
    assert bool(said(f"t0 = {op_type} (d)  {steps}  y = Gather (table, t{length - 1})")) == found


def test_a_cycle_ends():
    assert said("a = Floor (b)  b = Add (a, d)  y = Gather (table, a)") == [read_by("Gather -> y", "a")]


def test_the_fix_reads_what_stands_in_front_of_the_pair():
    ((_, fault),) = located(CODE, model("n = Cast <to = 7> (d)  y = Gather (table, n)"))

    assert [fix.description for fix in fault.fixes] == ["connects the readers of the pair to the tensor in front of it"]
