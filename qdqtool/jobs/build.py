"""The build job: validate, settle shapes and targets, parse and build in a child process, report the precisions."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from qdqtool.builders import backends
from qdqtool.builders.builder import (
    BuildRefusedError,
    Built,
    EngineBuilder,
    EngineRequest,
    NodePrecision,
    Refusal,
)
from qdqtool.builders.kernels import as_json
from qdqtool.engine import manifest
from qdqtool.engine.build_model import ModelToBuild, model_to_build
from qdqtool.engine.conversions import find_conversions
from qdqtool.engine.engine_map import map_kernels
from qdqtool.engine.options import BuildOptions
from qdqtool.engine.precision_gate import achieved_counts, gate_result, planned_counts
from qdqtool.engine.refusal import Attempt, explain
from qdqtool.engine.report import EngineReport
from qdqtool.graph.io.external import external_files
from qdqtool.graph.io.load import load_model
from qdqtool.graph.io.output import check_outputs, is_stream, output_errors, staged, write_output
from qdqtool.graph.model import Model
from qdqtool.jobs.validate import validate_model
from qdqtool.linting.report import Summary


def build_engine(
    model: str | Path, output: str | Path, *, backend: str = backends.AUTO, options: BuildOptions | None = None
) -> EngineReport:
    """Build an engine from a Q/DQ (or float) model.

    Args:
        model: The ONNX file.
        output: The engine to write; ``OUTPUT.manifest.json`` is written beside it.
        backend: ``tensorrt``, ``tensorrt-rtx`` or ``auto`` (the first of the two that is installed).
        options: How to build.

    Raises:
        CapabilityError: The backend, or the GPU that it needs, is absent.
        ModelError: The model cannot be read.
        UsageError: A shape, target or path does not fit the model.
        BuildRefusedError: ``validate`` found errors, or the parser or the builder refused the model.
        BuilderFailedError: It crashed or ran out of time.
        OutputError: A file cannot be written. In every case no engine is left.
    """
    options = options or BuildOptions()
    builder = backends.get(backend)
    builder.require()
    return _Job(builder, load_model(model), Path(output), options).run()


class _Job:
    """One build; the steps share what has been settled."""

    def __init__(self, builder: EngineBuilder, model: Model, output: Path, options: BuildOptions) -> None:
        self._builder, self._model, self._output, self._options = builder, model, output, options
        # There is no place beside a stream.
        self._manifest = None if is_stream(output) else manifest.manifest_path(output)

    def run(self) -> EngineReport:
        self._check_outputs()
        with model_to_build(self._model, self._options) as ready, staged(self._output) as engine:
            request = EngineRequest(
                model=ready.file,
                engine=engine.file,
                targets=self._builder.resolve_targets(self._options.compute_capabilities, ready.model),
                profiles=ready.profiles,
                values=ready.values,
                measured_values=ready.measured_values,
                timeout=self._options.timeout,
                verbose_log=self._options.verbose_log,
            )
            findings = None if self._options.skip_validate else _validate(ready.model, self._builder)
            try:
                built = self._builder.build(request)
            except BuildRefusedError as error:
                raise explain(error, self._attempt(request, ready)) from None
            self._write_layer_info(built)
            report = self._report(built, request, ready, findings)
            if report.passed:
                _write_manifest(self._model, report, engine.file)
                with output_errors(self._output):
                    engine.publish()
        return report

    def _attempt(self, request: EngineRequest, ready: ModelToBuild) -> Attempt:
        assert self._model.path is not None
        return Attempt(
            builder=self._builder,
            request=request,
            path=self._model.path,
            options=self._options,
            is_specialized=ready.has_fixed_shapes,
        )

    def _check_outputs(self) -> None:
        assert self._model.path is not None
        inputs = [self._model.path, *external_files(self._model.proto, self._model.folder)]
        outputs = [self._output, *([self._manifest] if self._manifest is not None else [])]
        if self._options.calib_data is not None:
            inputs.append(self._options.calib_data)
        extra = [path for path in (self._options.layer_info, self._options.verbose_log) if path is not None]
        check_outputs([*outputs, *extra], inputs)

    def _write_layer_info(self, built: Built) -> None:
        if self._options.layer_info is None:
            return
        facts = {"Layers": [as_json(kernel) for kernel in built.kernels], "Dump": built.layer_dump}
        write_output(self._options.layer_info, manifest.encode(facts))

    def _report(
        self, built: Built, request: EngineRequest, ready: ModelToBuild, findings: Summary | None
    ) -> EngineReport:
        nodes = self._builder.precision(ready.model, built)
        gates = tuple(gate_result(gate, nodes) for gate in self._options.require_precision)
        passed = all(gate.passed for gate in gates)
        return EngineReport(
            model=str(self._model.path),
            engine=str(self._output) if passed else None,
            passed=passed,
            backend=self._builder.id,
            version=built.version,
            evidence=built.evidence,
            targets=request.targets,
            specialized=ready.specialized,
            profiles=request.profiles,
            shape_values=built.values,
            seconds=round(built.parse_seconds + built.build_seconds, 3),
            bytes=request.engine.stat().st_size,
            planned=planned_counts(nodes),
            achieved=achieved_counts(nodes),
            nodes=nodes,
            kernels=map_kernels(built.kernels),
            conversions=find_conversions(ready.model, built),
            gates=gates,
            warnings=built.warnings,
            findings=findings,
            skipped=("validate",) if self._options.skip_validate else (),
            manifest=str(self._manifest) if passed and self._manifest is not None else None,
            layer_info=str(self._options.layer_info) if self._options.layer_info is not None else None,
        )


def _validate(model: Model, builder: EngineBuilder) -> Summary:
    """The validate gate: how much it found, when nothing of it is an error."""
    report = validate_model(model, [builder.release])
    refusals = tuple(
        Refusal(reason=finding.message, node=finding.node, op_type=finding.op_type, code=finding.code)
        for finding in report.findings
        if finding.severity == "error"
    )
    if refusals:
        command = f"qdqtool validate --target {builder.release} {shlex.quote(str(model.path))}"
        hint = f"`{command}` shows all that it finds; `--skip-validate` builds all the same"
        raise BuildRefusedError(f"validate for {builder.release}", refusals, "validate", hint=hint)
    return report.summary


def _write_manifest(model: Model, report: EngineReport, engine: Path) -> None:
    if report.manifest is None or report.engine is None:
        return
    facts: dict[str, Any] = {
        "model": manifest.describe_model(model),
        "engine": {**manifest.fingerprint(engine), "name": Path(report.engine).name},
        "backend": report.backend,
        "versions": manifest.describe_tools(report.backend, report.version),
        "targets": report.targets,
        "specialized": asdict(report.specialized) if report.specialized is not None else None,
        "profiles": [asdict(profile) for profile in report.profiles],
        "shape_values": [asdict(values) for values in report.shape_values],
        "skipped": report.skipped,
        "evidence": report.evidence,
        "planned": report.planned,
        "achieved": report.achieved,
        "fallbacks": _fallbacks(report.nodes),
        "kernels": [asdict(kernel) for kernel in report.kernels],
        "conversions": asdict(report.conversions) if report.conversions is not None else None,
        "gates": [asdict(gate) for gate in report.gates],
        "warnings": report.warnings,
    }
    write_output(Path(report.manifest), manifest.encode(facts))


def _fallbacks(nodes: Sequence[NodePrecision]) -> list[dict[str, Any]]:
    return [asdict(node) for node in nodes if node.actual != node.planned]
