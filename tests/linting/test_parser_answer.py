"""The parser's word in a report: policies apply to it, and what a rule said already is not said again."""

from pathlib import Path

import onnx
import onnx.parser
import pytest

from qdqtool.linting.parser_answer import ParserAnswer, ParserFault
from qdqtool.linting.policy import Linter, Policy
from qdqtool.linting.report import TargetReport
from qdqtool.linting.rules import RuleContext
from qdqtool.models.graph.index.suppressions import KEY
from qdqtool.models.graph.model import Model

TEXT = """<ir_version: 10, opset_import: ["": 21]>
agraph (float[2,2] x) => (float[2,2] y) <float bad = {0}, int8 z = {0}> {
    [q] a = QuantizeLinear (x, bad, z)
    [dq] b = DequantizeLinear (a, bad, z)
    [near] c = Relu (b)
    [far] d = Relu (c)
    [away] y = Relu (d)
}"""


def said(*names: str) -> ParserAnswer:
    faults = tuple(
        ParserFault(title="P", reason=f"it is {name}", name=name, op_type="Relu" if name else "") for name in names
    )
    return ParserAnswer(status="asked", note="P 1.0", messages=("false",), faults=faults)


def report(folder: Path, word: ParserAnswer, *, note: str = "", **policy: object) -> TargetReport:
    model = onnx.parser.parse_model(TEXT)
    if note:
        model.graph.node[-1].metadata_props.add(key=KEY, value=note)
    onnx.save(model, folder / "m.onnx")
    linter = Linter(Policy(targets=("tensorrt-rtx",), **policy))
    (target,) = linter.with_parser(linter.file(folder / "m.onnx"), word).targets
    return target


def places(target: TargetReport) -> list[str | None]:
    return [finding.node for finding in target.findings if finding.code == "QE701"]


def test_what_it_said_is_in_the_report(tmp_path: Path):
    target = report(tmp_path, said("away"), select=("QE701",))

    assert (target.parser, target.parser_note, target.parser_messages) == ("asked", "P 1.0", ("false",))
    assert (target.verdict, target.checked, places(target)) == ("fail", ("QE701",), ["away"])
    assert target.findings[0].fingerprint
    assert "far" in target.findings[0].context or "Relu" in target.findings[0].context


def test_a_place_that_a_rule_reports_is_not_reported_twice(tmp_path: Path):
    assert places(report(tmp_path, said("near", "away"))) == ["away"]
    assert places(report(tmp_path, said(""))) == []
    assert places(report(tmp_path, said(""), select=("QE701",))) == [None]


@pytest.mark.parametrize(
    "policy", [{"per_node_ignores": {"away": ("QE",)}}, {"note": "QE701: we run this part elsewhere"}]
)
def test_it_can_be_suppressed(tmp_path: Path, policy: dict[str, object]):
    target = report(tmp_path, said("away"), **policy)

    assert places(target) == []
    assert target.suppressed == 1
    assert "QM901" not in {finding.code for finding in target.findings}


def test_its_severity_can_be_changed(tmp_path: Path):
    target = report(tmp_path, said("away"), select=("QE701",), severity={"QE": "warning"})

    assert (target.verdict, target.findings[0].severity) == ("pass", "warning")


@pytest.mark.parametrize("policy", [{"ignore": ("QE701",)}, {"select": ("QN",)}, {"targets": ("tensorrt",)}])
def test_nobody_is_asked_where_nobody_listens(policy: dict[str, object]):
    assert not Linter(Policy(**{"targets": ("tensorrt-rtx",), **policy})).hears_parser(Path("m.onnx"))


def test_it_is_off_until_it_is_asked(tmp_path: Path):
    onnx.save(onnx.parser.parse_model(TEXT), tmp_path / "m.onnx")
    reports = Linter(Policy(targets=("tensorrt-rtx", "tensorrt"))).file(tmp_path / "m.onnx").targets

    assert [target.parser for target in reports] == ["off", None]
    assert all("QE701" not in target.checked for target in reports)


CALLS = """<ir_version: 10, opset_import: ["": 21, "local": 1]>
g (float[2] x, bool c) => (float[2] y) {
    [one] a = Relu (x)
    [two] b = Abs (a)
    [two] d = Neg (b)
    [twin] e = Relu (d)
    [twin] f = Relu (e)
    h = If (c) <then_branch = t () => (float[2] p) { n = Sqrt (x) p = Exp (n) },
                else_branch = s () => (float[2] q) { q = Sqrt (x) }>
    y = local.F (h)
}
<domain: "local", opset_import: ["": 21]> F (u) => (v) { v = Log (u) }
"""


@pytest.mark.parametrize(
    ("given", "output"),
    [
        ({"name": "one", "op_type": "Relu"}, "a"),
        ({"name": "two", "op_type": "Abs"}, "b"),
        ({"name": "two", "op_type": "Neg"}, "d"),
        ({"name": "one", "op_type": "Abs"}, None),
        ({"name": "three", "op_type": "Relu"}, None),
        # The place tells nodes of one name apart, and is that of another node where the parser has sorted the nodes.
        ({"name": "twin", "op_type": "Relu"}, None),
        ({"name": "twin", "op_type": "Relu", "index": 3}, "e"),
        ({"name": "twin", "op_type": "Relu", "index": 4}, "f"),
        ({"name": "twin", "op_type": "Relu", "index": 0}, None),
        # Without a name the place is all there is.
        ({"op_type": "Relu", "index": 0}, "a"),
        ({"op_type": "Abs", "index": 1}, "b"),
        ({"op_type": "If", "index": 5}, "h"),
        ({"op_type": "Abs", "index": 0}, None),
        ({"op_type": "Abs"}, None),
        ({}, None),
        # Places in branches and local functions are others.
        ({"op_type": "Sqrt", "index": 0}, None),
        ({"op_type": "Log", "index": 0}, None),
    ],
)
def test_the_node_at_fault(given: dict[str, str | int], output: str | None):
    nodes = RuleContext(Model(onnx.parser.parse_model(CALLS))).nodes

    found = ParserFault(title="TensorRT", reason="it refuses", **given).node(nodes)

    assert (found and found.proto.output[0]) == output
