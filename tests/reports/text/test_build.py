"""What the terminal says of an engine, of a refused build and of a verified engine."""

from dataclasses import replace

from support.printed import ESCAPED, HOSTILE, cells, printed

from qdqtool.engines.build.report import EngineReport, GateResult, Locked, RefusedReport
from qdqtool.engines.build.verification import EngineCheck
from qdqtool.engines.report import InputProfile, NodePrecision, Refusal, Stage
from qdqtool.jobs.verify_engine import VerifyReport
from qdqtool.linting.report import Summary
from qdqtool.models.report import Specialized, Work
from qdqtool.reports.text.build import SHOWN, render, render_refused, render_verified

RUNS = NodePrecision(name="c1", op_type="Conv", planned="int8", actual="int8")
FALLS_BACK = NodePrecision(
    name="c2", op_type="Conv", planned="int8", actual="float32", graph="then", reason="no kernel takes axis 1"
)
REPORT = EngineReport(
    model="m.onnx",
    engine="e.engine",
    passed=True,
    backend="tensorrt",
    version="10.9",
    evidence="aot-dump",
    targets=("8.9", "12.0"),
    specialized=None,
    profiles=(),
    shape_values=(),
    options={},
    seconds=1.25,
    bytes=2_500_000,
    planned={"int8": 2},
    achieved={"int8": 1},
    nodes=(RUNS, FALLS_BACK),
    macs=Work(by_type={}),
    kernels=(),
    conversions=None,
    gates=(),
    warnings=(),
    findings=None,
    skipped=(),
    manifest="e.engine.manifest.json",
    signature=None,
    locked=None,
    layer_info=None,
)


def lines(**changes: object) -> list[str]:
    return printed(render, replace(REPORT, **changes)).splitlines()


def test_the_head_numbers_several_profiles_and_names_the_options():
    shape = (1, 3)
    head = lines(
        profiles=(InputProfile("a", shape, shape, shape), InputProfile("a", shape, (4, 3), (8, 3), 1)),
        shape_values=(InputProfile("n", (1,), (1,), (1,), 1),),
        options={"mem_pool_size": {"workspace": 1024}, "builder_optimization_level": 5, "refit": True},
    )
    assert head[2:6] == [
        "  profile 0: input a: 1x3",
        "  profile 1: input a: 1x3 to 8x3, optimized for 4x3",
        "  profile 1: values of input n: 1",
        "  options: mem_pool_size workspace:1024B, builder_optimization_level 5, refit",
    ]


def test_work_is_shown_for_model_and_engine_and_a_float32_rest_is_a_warning():
    work = Work(by_type={"int8": 9_000, "float32": 1_000}, weight_bytes={"int8": 64}, float32={"fc": 1_000})
    found = lines(work=work, macs=Work(by_type={"int8": 10_000}))
    at = found.index("  model: multiply-accumulates: 9 k in int8 (90.00%), 1 k in float32 (10.00%)")
    assert found[at + 1 : at + 3] == [
        "  model: weights: 64 bytes in int8",
        "  engine: multiply-accumulates: 10 k in int8",
    ]
    assert found[at + 3].startswith(
        "warning  10.0% of the multiply-accumulates run in float32, such as those of 'fc': "
    )
    assert not [line for line in lines(work=replace(work, float32={})) if line.startswith("warning")]


def test_a_locked_build_says_what_is_equal_and_what_is_not():
    def told(same_bytes: bool, same_kernels: bool | None) -> str:
        found = Locked(manifest="l.json", same_bytes=same_bytes, same_kernels=same_kernels)
        (line,) = (line for line in lines(locked=found) if line.startswith("locked: "))
        return line.removeprefix("locked: model, options and product match l.json; ")

    assert told(True, True) == "the engine has the same bytes"
    assert told(False, True) == "the engine has OTHER bytes, the kernels are the same"
    assert told(False, None) == "the engine has OTHER bytes, the kernels are unknown"


def test_a_signature_is_named_beside_the_manifest():
    assert "manifest in e.engine.manifest.json, signed in e.sig" in lines(signature="e.sig")


def test_the_head_names_backend_targets_and_shapes():
    head = lines(
        specialized=Specialized(input_shapes={"x": (1, 3)}, nodes_before=9, nodes_after=7),
        profiles=(InputProfile("a", (1, 3), (1, 3), (1, 3)), InputProfile("b", (1, 3), (4, 3), (8, 3))),
        shape_values=(InputProfile("n", (1, -1), (1, -1), (1, -1)),),
        findings=Summary(warnings=1, infos=2),
        skipped=("validate",),
        warnings=("slow",),
    )

    assert head[:10] == [
        "m.onnx",
        "  tensorrt 10.9; compute capability 8.9, 12.0",
        "  specialized for x 1x3: 9 nodes became 7",
        "  input a: 1x3",
        "  input b: 1x3 to 8x3, optimized for 4x3",
        "  values of input n: 1x-1",
        "  validate: pass (1 warning, 2 infos)",
        "  validate: SKIPPED",
        "  warning: slow",
        "",
    ]


def test_without_targets_the_engine_is_for_this_gpu():
    assert "  tensorrt 10.9; for the GPU in this machine" in lines(targets=())


def test_planned_types_are_compared_with_actual_ones():
    text = lines()
    assert "1 of 2 planned int8 nodes run in int8 kernels" in text
    assert ["int8", "float32", "Conv", "1"] in cells("\n".join(text))
    assert [line for line in text if "->" in line] == ["  c2 in then (Conv): int8 -> float32, no kernel takes axis 1"]


def test_many_fallbacks_are_counted():
    nodes = tuple(replace(FALLS_BACK, reason=str(index)) for index in range(SHOWN + 1))
    text = lines(nodes=nodes)
    assert sum("->" in line for line in text) == SHOWN
    assert "  … and 1 more (-v lists all)" in text


def test_nodes_with_the_same_fallback_are_one_line():
    nodes = tuple(replace(FALLS_BACK, name=f"c{index}", graph="") for index in range(6))
    report = replace(REPORT, nodes=nodes)
    brief, full = (printed(render, report, verbose=verbose).splitlines() for verbose in (False, True))
    assert [line for line in brief if "->" in line] == [
        "  c0, c1, c2, c3, … (6 in all) (Conv): int8 -> float32, no kernel takes axis 1"
    ]
    assert sum("->" in line for line in full) == 6


def test_the_verdict_says_where_nothing_runs_quantized():
    verdict = "wrote e.engine, 2.5 MB in 1.2 s: a FLOAT engine, none of 1 planned node runs quantized"
    float_engine = {"nodes": (FALLS_BACK,), "planned": {"int8": 1}, "achieved": {"int8": 0}}

    assert lines(**float_engine)[-1] == verdict
    assert "FLOAT" not in lines()[-1]
    assert "FLOAT" not in lines(**float_engine, evidence="none")[-1]
    assert "FLOAT" not in lines(nodes=(), planned={}, achieved={})[-1]


def test_what_is_not_known_is_no_float_engine():
    unknown = replace(FALLS_BACK, name="c3", actual="unknown")
    text = lines(nodes=(FALLS_BACK, unknown), planned={"int8": 2}, achieved={"int8": 0})
    assert "0 of 2 planned int8 nodes run in int8 kernels; unknown for 1" in text
    assert "FLOAT" not in text[-1]


def test_the_limits_of_the_evidence_are_said():
    assert any("The dump shows neither" in line for line in lines())
    assert any("the types of the kernels are unknown" in line for line in lines(evidence="none"))


def test_an_engine_without_quantized_nodes_is_a_float_engine():
    assert "no quantized Conv, ConvTranspose, Gemm or MatMul: this is a float engine" in lines(nodes=(), planned={})


def test_files_are_named_with_size_and_time():
    assert lines(layer_info="l.json")[-3:] == [
        "layers in l.json",
        "manifest in e.engine.manifest.json",
        "wrote e.engine, 2.5 MB in 1.2 s",
    ]


def test_a_missed_gate_leaves_no_engine():
    gates = (
        GateResult(gate="int8>=95%", passed=False, found="1 of 2 nodes"),
        GateResult(gate="int8>=50%", passed=True, found="1 of 2 nodes"),
    )
    text = lines(gates=gates, engine=None, manifest=None)

    table = cells("\n".join(text))
    assert ["int8>=95%", "FAIL", "precision of the engine", "1 of 2 nodes"] in table
    assert ["int8>=50%", "PASS", "precision of the engine", "1 of 2 nodes"] in table
    assert text[-1] == "no engine was written, because a gate was missed"


def refused(*refusals: Refusal, stage: Stage = "parse") -> list[str]:
    report = RefusedReport(
        model=HOSTILE, engine=None, passed=False, stage=stage, message="", refusals=refusals, remark="", hint=None
    )
    return printed(render_refused, report).splitlines()


def test_several_refusals_are_listed():
    first = Refusal(reason="axis is 1", node="q", op_type="QuantizeLinear", hint="use axis 0", code="QP101")
    second = Refusal(reason=HOSTILE, node=HOSTILE)
    assert refused(first, second, Refusal(reason="too large")) == [
        f"{ESCAPED}: the parser refuses",
        "  QP101 q (QuantizeLinear): axis is 1; use axis 0",
        f"  {ESCAPED} (?): {ESCAPED}",
        "  too large",
    ]


def test_the_head_names_the_stage():
    twice = (Refusal(reason="a"), Refusal(reason="b"))
    assert refused(*twice, stage="validate")[0].endswith(": the validate gate refuses")
    assert refused(*twice, stage="build")[0].endswith(": the builder refuses")


def test_a_single_refusal_is_left_to_the_error_message():
    assert refused(Refusal(reason="axis is 1")) == []


PASSED = EngineCheck(name="engine", status="passed", detail="e.engine: 6 bytes")
FAILED = EngineCheck(name="version", status="failed", detail=HOSTILE)
IMPOSSIBLE = EngineCheck(name="gpu", status="not-possible", detail="no CUDA driver")


def verified(*checks: EngineCheck) -> list[str]:
    passed = all(check.status != "failed" for check in checks)
    report = VerifyReport(engine=HOSTILE, manifest="m.json", passed=passed, checks=checks)
    return printed(render_verified, report).splitlines()


def test_every_check_is_listed_with_its_result():
    assert verified(PASSED, FAILED, IMPOSSIBLE)[:4] == [
        ESCAPED,
        "  engine   passed: e.engine: 6 bytes",
        f"  version  FAILED: {ESCAPED}",
        "  gpu      not possible: no CUDA driver",
    ]


def test_the_verdict_claims_no_more_than_was_checked():
    assert verified(PASSED, IMPOSSIBLE)[-1] == "1 check passed; 1 not possible: gpu. The engine was not run."
    assert verified(PASSED, PASSED)[-1] == "2 checks passed. The engine was not run."
    expected = "FAILED: version; 1 check passed; 1 not possible: gpu. The engine was not run."
    assert verified(PASSED, FAILED, IMPOSSIBLE)[-1] == expected
