"""The build job: validate, determine shapes and targets, parse and build in a child process, report the precisions."""

from __future__ import annotations

from pathlib import Path

from qdqtool.engines.build import manifest
from qdqtool.engines.build.build_model import ModelToBuild, model_to_build
from qdqtool.engines.build.conversions import find_conversions
from qdqtool.engines.build.engine_map import at_shapes, find_products, map_kernels, node_macs, sum_macs
from qdqtool.engines.build.lock import Lock
from qdqtool.engines.build.options import BuildOptions
from qdqtool.engines.build.precision_gate import achieved_counts, gate_result, lost_nodes, planned_counts
from qdqtool.engines.build.refusal import FailedBuild, explain, refuse_errors
from qdqtool.engines.build.report import EngineReport
from qdqtool.engines.build.signature import sign, signature_path
from qdqtool.engines.build.verification import installed_version
from qdqtool.engines.tensorrt import backends
from qdqtool.engines.tensorrt.builder import BuildRefusedError, Built, EngineRequest
from qdqtool.engines.tensorrt.kernels import encode_layers
from qdqtool.engines.tensorrt.planned_types import work_of
from qdqtool.engines.tensorrt.tensorrt_builder import TensorRT
from qdqtool.errors import UsageError
from qdqtool.jobs.validate import validate_model
from qdqtool.linting.report import Summary
from qdqtool.models.graph.io.external import external_files
from qdqtool.models.graph.io.load import load_model
from qdqtool.models.graph.io.model_file import describe_file
from qdqtool.models.graph.io.output import check_outputs, is_stream, output_errors, staged, together, write_output
from qdqtool.models.graph.model import Model
from qdqtool.models.plugins import plugin_operators
from qdqtool.samples.in_memory import in_files


def build_engine(
    model: str | Path, output: str | Path, *, backend: str = backends.AUTO, options: BuildOptions | None = None
) -> EngineReport:
    """Build an engine from a Q/DQ (or float) model.

    Args:
        model: The ONNX file.
        output: The engine to write; ``OUTPUT.manifest.json`` is written next to it.
        backend: ``tensorrt``, ``tensorrt-rtx`` or ``auto`` (the first of the two that is installed).
        options: How to build.
    """
    builder = backends.get(backend)
    builder.require()
    path = Path(model)
    # Hashed before it is loaded: the builder must read the bytes that are validated here.
    file = manifest.fingerprint(path) if path.is_file() else None
    loaded = load_model(path)
    files = manifest.describe_model(loaded, file or manifest.fingerprint(path))
    return _Job(builder, loaded, files, Path(output), options or BuildOptions()).run()


class _Job:
    """One build; its steps share the settings."""

    def __init__(
        self, builder: TensorRT, model: Model, files: manifest.StoredModel, output: Path, options: BuildOptions
    ) -> None:
        assert model.path is not None
        self._builder, self._model, self._files, self._output, self._options = builder, model, files, output, options
        self._path = model.path
        # No file can be written next to a stream.
        self._manifest = None if is_stream(output) else manifest.manifest_path(output)
        self._signature = signature_path(self._manifest) if self._manifest is not None and options.sign_key else None
        self._lock = Lock.read(options.locked) if options.locked is not None else None

    def run(self) -> EngineReport:
        self._check_outputs()
        self._check_key()
        if self._lock is not None:
            self._lock.check_product(self._builder.id, installed_version(self._builder.id))
        with model_to_build(self._model, self._options) as ready, staged(self._output) as engine:
            request = EngineRequest(
                model=ready.file,
                engine=engine.file,
                targets=self._builder.resolve_targets(self._options.compute_capabilities, ready.model),
                profiles=ready.profiles,
                values=ready.values,
                measured_values=ready.measured_values,
                profile_count=len(self._options.profiles()),
                deployment=self._options.deployment,
                timeout=self._options.timeout,
                verbose_log=self._options.verbose_log,
            )
            if self._lock is not None:
                self._lock.check_inputs(self._files, ready, request, self._options)
            findings = None if self._options.skip_validate else self._validated(ready)
            try:
                built = self._builder.build(request)
            except BuildRefusedError as error:
                attempt = FailedBuild(self._builder, request, self._path, self._options, ready.has_fixed_shapes)
                raise explain(error, attempt) from None
            finally:
                manifest.require_unchanged(self._files, self._model)
            report = self._report(built, request, ready, findings)
            if self._options.layer_info is not None:
                write_output(self._options.layer_info, encode_layers(built.kernels, built.layer_dump))
            if report.passed:
                with together(), output_errors(self._output):
                    self._write_beside(report, built, engine.file)
                    engine.publish()
        return report

    def _validated(self, ready: ModelToBuild) -> Summary:
        report = validate_model(ready.model, [self._builder.release])
        refuse_errors(report.findings, ready, self._builder)
        return report.summary

    def _write_beside(self, report: EngineReport, built: Built, engine: Path) -> None:
        """Write the requested files: the manifest, its signature and the timing cache."""
        cache, key = self._options.deployment.timing_cache_file, self._options.sign_key
        if self._manifest is not None:
            described = manifest.describe_build(self._model, self._files, report, engine, built.timing_cache)
            data = manifest.encode(described)
            if self._lock is not None and self._lock.is_in(self._manifest):
                data = self._lock.data
            signed = sign(data, key) if key is not None else None
            write_output(self._manifest, data)
            if signed is not None:
                write_output(signature_path(self._manifest), signed)
        # A timing cache that a manifest locks is not changed.
        if cache is not None and built.timing_cache is not None and self._lock is None:
            write_output(cache, built.timing_cache)

    def _check_outputs(self) -> None:
        options = self._options
        inputs = [self._path, *external_files(self._model.proto, self._model.folder)]
        inputs += in_files((options.calib_data.path if options.calib_data is not None else None, options.sign_key))
        if options.locked is not None and not (self._lock and self._manifest and self._lock.is_in(self._manifest)):
            inputs.append(options.locked)
        extra = (options.layer_info, options.verbose_log, options.deployment.timing_cache_file)
        outputs = (self._output, self._manifest, self._signature, *extra)
        check_outputs([path for path in outputs if path is not None], inputs)

    def _check_key(self) -> None:
        """Make a signature with the key, so that a wrong key is found before a long build."""
        if self._options.sign_key is None:
            return
        if self._manifest is None:
            raise UsageError(
                f"--sign needs a manifest, but none can be written beside {self._output}, which is not a regular file",
                hint="name an output file",
            )
        sign(b"", self._options.sign_key)

    def _report(
        self, built: Built, request: EngineRequest, ready: ModelToBuild, findings: Summary | None
    ) -> EngineReport:
        nodes, lost = self._builder.precision(ready.model, built), lost_nodes(self._model)
        asked = self._options.require_precision
        work = tuple(node_macs(ready.model, ready.profiles)) if asked else ()
        gates = tuple(gate_result(gate, nodes, lost, work) for gate in asked)
        passed = all(gate.passed for gate in gates)
        products = find_products(ready.model, built.kernels, ready.profiles)
        kernels = map_kernels(built.kernels, products)
        return EngineReport(
            model=str(self._path),
            engine=str(self._output) if passed else None,
            passed=passed,
            backend=self._builder.id,
            version=built.version,
            evidence=built.evidence,
            targets=request.targets,
            specialized=ready.specialized,
            profiles=request.profiles,
            shape_values=built.values,
            options=self._options.deployment.given(),
            seconds=round(built.parse_seconds + built.build_seconds, 3),
            bytes=request.engine.stat().st_size,
            planned=planned_counts(nodes),
            achieved=achieved_counts(nodes),
            nodes=nodes,
            macs=sum_macs(kernels, products),
            kernels=kernels,
            conversions=find_conversions(ready.model, built),
            gates=gates,
            lost_nodes=lost,
            warnings=built.warnings,
            findings=findings,
            skipped=("validate",) if self._options.skip_validate else (),
            manifest=str(self._manifest) if passed and self._manifest is not None else None,
            signature=str(self._signature) if passed and self._signature is not None else None,
            locked=self._lock.compare(built, kernels, request.engine, self._manifest) if self._lock else None,
            layer_info=str(self._options.layer_info) if self._options.layer_info is not None else None,
            model_file=describe_file(self._model),
            plugin_operators=tuple(map(str, plugin_operators(ready.model.proto).values())),
            work=work_of(at_shapes(ready.model, ready.profiles), nodes),
        )
