"""What the terminal says of ``validate --fix``."""

from dataclasses import replace

from support.printed import ESCAPED, HOSTILE, printed

from qdqtool.linting.repair.report import Change, FixedModel, FixReport, Repaired
from qdqtool.linting.report import Summary
from qdqtool.reports.text.repaired import render_fixes

SAFE = Change(code="QP101", label="safe", description="scale becomes 1", node="n", graph="", proof="bit-equal")
MODEL = FixedModel(path="m.onnx", output="f.onnx", repaired=Repaired(changes=(SAFE, replace(SAFE, label="unsafe"))))


def lines(**changes: object) -> list[str]:
    return printed(render_fixes, FixReport(models=(replace(MODEL, **changes),), summary=Summary())).splitlines()


def test_changes_are_counted_by_label_and_the_file_is_named():
    text = lines(external_data="f.data")

    assert text[0] == "m.onnx: 2 changes made (1 safe, 1 unsafe)"
    assert text[3:6] == ["wrote f.onnx", "weights in f.data", ""]


def test_a_diff_only_says_what_would_be_done():
    text = lines(output=None, diff=f"- a\n+ b{HOSTILE[:9]}")

    assert text[0] == "m.onnx: 2 changes would be made (1 safe, 1 unsafe)"
    assert text[3:5] == ["- a", r"+ bevil\x1b[31m"]
    assert not any(line.startswith("wrote") for line in text)


def test_an_unreadable_model_has_only_its_error():
    assert lines(repaired=None, output=None, error="no such file") == [
        "m.onnx: unreadable",
        "  no such file",
        "",
        "1 model, 0 errors, 0 warnings, 0 infos, 1 unreadable",
    ]


def test_file_names_are_escaped():
    text = "\n".join(lines(path=HOSTILE, output=HOSTILE, external_data=HOSTILE))

    assert text.count("evil") == text.count(ESCAPED) == 3
