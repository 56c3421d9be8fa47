"""What the terminal says of a verified engine."""

from support.printed import ESCAPED, HOSTILE, printed

from qdqtool.engines.build.verification import EngineCheck
from qdqtool.jobs.verify_engine import VerifyReport
from qdqtool.reports.text.build import render_verified

PASSED = EngineCheck(name="engine", status="passed", detail="e.engine: 6 bytes")
FAILED = EngineCheck(name="version", status="failed", detail=HOSTILE)
IMPOSSIBLE = EngineCheck(name="gpu", status="not-possible", detail="no CUDA driver")


def lines(*checks: EngineCheck) -> list[str]:
    passed = all(check.status != "failed" for check in checks)
    report = VerifyReport(engine=HOSTILE, manifest="m.json", passed=passed, checks=checks)
    return printed(render_verified, report).splitlines()


def test_every_check_is_listed_with_its_result():
    assert lines(PASSED, FAILED, IMPOSSIBLE)[:4] == [
        ESCAPED,
        "  engine   passed: e.engine: 6 bytes",
        f"  version  FAILED: {ESCAPED}",
        "  gpu      not possible: no CUDA driver",
    ]


def test_the_verdict_claims_no_more_than_was_checked():
    assert lines(PASSED, IMPOSSIBLE)[-1] == "1 check passed; 1 not possible: gpu. The engine was not run."
    assert lines(PASSED, PASSED)[-1] == "2 checks passed. The engine was not run."
    expected = "FAILED: version; 1 check passed; 1 not possible: gpu. The engine was not run."
    assert lines(PASSED, FAILED, IMPOSSIBLE)[-1] == expected
