"""How the gate is written."""

import pytest

from qdqtool.engines.gpu.speedup_gate import SpeedupGate, parse_speedup
from qdqtool.errors import UsageError


@pytest.mark.parametrize(("text", "ratio"), [(">=1.2x", 1.2), (" >= 2x ", 2.0), (">=0.95x", 0.95)])
def test_a_gate_is_read_and_written(text, ratio):
    gate = parse_speedup(text)
    assert gate == SpeedupGate(ratio)
    assert parse_speedup(str(gate)) == gate


@pytest.mark.parametrize("text", ["1.2x", ">=1.2", ">1.2x", ">=nanx", ">=infx", ">=-1x", ">=1e3x", "", ">=x", ">=1,2x"])
def test_anything_else_is_refused(text):
    with pytest.raises(UsageError, match="is not a speedup"):
        parse_speedup(text)


@pytest.mark.parametrize("ratio", [0.0, -1.0, float("nan"), float("inf")])
def test_a_gate_that_nothing_or_everything_meets_is_refused(ratio):
    with pytest.raises(UsageError, match="must be positive and finite"):
        SpeedupGate(ratio)
    if ratio == 0:
        with pytest.raises(UsageError, match="must be positive and finite"):
            parse_speedup(">=0x")
