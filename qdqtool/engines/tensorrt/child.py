"""The child process that runs TensorRT: read a request, parse, build, and record every stage.

Run as ``python -m qdqtool.engines.tensorrt.child FOLDER``. The folder has ``request.json``; this module writes
``result.json`` after every stage, so that the parent knows the last stage after a crash. It also writes ``log.jsonl``
with the library's log, and ``layers.txt`` with the layer dump. It imports only the standard library, TensorRT, and
modules with the same restriction.
"""

import importlib
import json
import os
import re
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, cast

from qdqtool.engines.tensorrt.parsing import (
    AheadOfTimeProduct,
    TensorRTModule,
    errors_of,
    lacking_option,
    load_plugins,
    new_network,
    set_options,
    survey,
    write_cache,
)

if TYPE_CHECKING:
    import tensorrt
    import tensorrt_rtx

# Time limit for the search for further refused nodes, so that the refusal itself is reported soon.
_SURVEY_SECONDS = 20.0
_QUIET = frozenset({"VERBOSE", "INFO"})
# The builder prints its layer dump as one VERBOSE message that begins with this word, and only with profiling
# verbosity DETAILED: LAYER_NAMES_ONLY prints none.
_LAYER_DUMP = "Layers:"
# The dump writes node names unchanged, separates the nodes of a kernel by 0x1f, and begins a record after a line break.
# A control character in a name would therefore split a record. The engine inspector writes names into JSON without
# escaping them: pytorch/TensorRT repairs its output if the metadata of a layer has quotes.
_UNSAFE = re.compile(r'[\x00-\x1f\x7f"\\]')


def plain_name(name: str) -> str:
    """Return a node name for the engine: characters that break the layer dump or the inspector's JSON become spaces."""
    return _UNSAFE.sub(" ", name)


def main(folder: Path) -> None:
    """Carry out the request in ``folder/request.json``."""
    _leave_with_the_parent()
    request = json.loads((folder / "request.json").read_text(encoding="utf-8"))
    result = _Result(folder / "result.json")
    try:
        trt = cast(TensorRTModule, importlib.import_module(request["module"]))
    except (ImportError, OSError) as error:
        result.put(problem="import", message=str(error))
        return
    with (folder / "log.jsonl").open("w", encoding="utf-8") as file:
        log = _open_log(trt, file, keep_all=request["verbose"])
        build = _Build(trt, log, request, result)
        engine = build.run()
        if engine is not None:
            layers = build.inspect(engine) if request["inspect"] else log.dump
            (folder / "layers.txt").write_text(layers, encoding="utf-8")
            result.put(stage="done")


def _leave_with_the_parent() -> None:
    # The parent holds the other end of stdin, a pipe. End of file means that the parent has ended.
    def watch() -> None:
        os.read(0, 1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


class _Result:
    """The facts so far; the whole file is replaced after each change."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._facts: dict[str, Any] = {}
        self.put(stage="start")

    def put(self, **facts: Any) -> None:
        self._facts.update(facts)
        # The builder may crash at any time (SIGSEGV). A rename leaves either the old file or the new one, never half
        # a file.
        partial = self._path.with_suffix(".part")
        partial.write_text(json.dumps(self._facts), encoding="utf-8")
        partial.replace(self._path)


class _Log:
    """The builder's log.

    Attributes:
        logger: The logger of TensorRT.
        dump: The last layer dump in the log; empty without a dump.
        problems: Warnings and errors.
    """

    logger: "tensorrt.ILogger"

    def __init__(self) -> None:
        self.dump = ""
        self.problems: list[str] = []


def _open_log(trt: TensorRTModule, file: TextIO, *, keep_all: bool) -> _Log:
    base, log = trt.ILogger, _Log()

    class Logger(base):  # type: ignore[misc, valid-type]  # the module is only known when it runs
        def log(self, severity: "tensorrt.ILogger.Severity", message: str) -> None:
            if severity.name not in _QUIET:
                log.problems.append(message)
            if message.startswith(_LAYER_DUMP):
                log.dump = message
            if keep_all or severity.name not in _QUIET:
                file.write(json.dumps([severity.name, message]) + "\n")
                # A crash of the library ends the process without flushing Python files.
                file.flush()

    log.logger = Logger()
    return log


class _Build:
    """One parse and build; :meth:`run` returns the serialized engine. After a failure it returns None."""

    def __init__(self, trt: TensorRTModule, log: _Log, request: dict[str, Any], result: _Result) -> None:
        self._trt, self._log, self._request, self._result = trt, log, request, result

    def run(self) -> "tensorrt.IHostMemory | None":
        self._result.put(version=self._trt.__version__)
        lacking = lacking_option(self._trt, self._request["options"])
        if lacking is not None:
            self._result.put(problem="lacking", option=lacking[0], message=lacking[1])
            return None
        try:
            # Without a usable GPU TensorRT (not RTX) cannot make a builder: pybind11 turns the null pointer into a
            # TypeError.
            builder = self._trt.Builder(self._log.logger)
        except (TypeError, RuntimeError) as error:
            self._result.put(problem="device", message=str(error))
            return None
        config = self._configure(builder)
        if config is None:
            return None
        network = self._parse(builder)
        if network is None or not self._knows_values(network):
            return None
        self._result.put(stage="build")
        started = time.perf_counter()
        ready = self._set_targets(config) and self._add_profiles(builder, network, config)
        # None if the builder refuses, which the type in its signature does not show.
        engine: tensorrt.IHostMemory | None = None
        if ready:
            engine = builder.build_serialized_network(network, config)
        self._result.put(build_seconds=time.perf_counter() - started)
        if engine is None:
            self._result.put(problem="refused")
            return None
        write_cache(config, self._request["options"])
        return engine if self._write(engine) else None

    def inspect(self, engine: "tensorrt.IHostMemory") -> str:
        self._result.put(stage="inspect")
        # deserialize_cuda_engine returns None without a CUDA device (cudaError 35), so only needs_gpu builders inspect.
        loaded: tensorrt.ICudaEngine | None = self._trt.Runtime(self._log.logger).deserialize_cuda_engine(engine)
        if loaded is None:
            return ""
        return str(loaded.create_engine_inspector().get_engine_information(self._trt.LayerInformationFormat.JSON))

    def _parse(self, builder: "tensorrt.Builder") -> "tensorrt.INetworkDefinition | None":
        self._result.put(stage="parse")
        started = time.perf_counter()
        network = new_network(self._trt, builder)
        parser = self._trt.OnnxParser(network, self._log.logger)
        # External data is found only with a path: parse(bytes) without one fails with "Failed to import initializer".
        # As str, the name would have to be UTF-8; pybind11 takes bytes too.
        parsed = parser.parse_from_file(os.fsencode(self._request["model"]))  # type: ignore[arg-type]
        self._result.put(parse_seconds=time.perf_counter() - started)
        if not parsed:
            errors = errors_of(parser)
            self._result.put(problem="refused", errors=errors)
            path = Path(self._request["model"])
            self._result.put(further=survey(self._trt, builder, self._log.logger, path, errors[0], _SURVEY_SECONDS))
            return None
        layers = [network.get_layer(index) for index in range(network.num_layers)]
        self._result.put(plugin_layers=sum(layer.type.name.startswith("PLUGIN") for layer in layers))
        for layer in layers:
            if _UNSAFE.search(layer.name + layer.metadata):
                layer.name, layer.metadata = plain_name(layer.name), plain_name(layer.metadata)
        return network

    def _configure(self, builder: "tensorrt.Builder") -> "tensorrt.IBuilderConfig | None":
        options, problems = self._request["options"], self._log.problems
        failed = load_plugins(self._trt, builder, self._log.logger, options, problems)
        if failed is not None:
            self._result.put(problem="plugin", option=failed[0], message=failed[1])
            return None
        config = builder.create_builder_config()
        # With LAYER_NAMES_ONLY and NONE the builder prints no layer dump.
        config.profiling_verbosity = self._trt.ProfilingVerbosity.DETAILED
        refused = set_options(self._trt, config, options, problems)
        if refused is not None:
            self._result.put(problem="option", option=refused[0], message=refused[1])
            return None
        return config

    def _set_targets(self, config: "tensorrt.IBuilderConfig") -> bool:
        targets: list[str] = self._request["targets"]
        if not targets:
            return True
        # Only TensorRT for RTX gets targets: the parent refuses them for other products.
        unknown = name_gpus(cast(AheadOfTimeProduct, self._trt), cast("tensorrt_rtx.IBuilderConfig", config), targets)
        if unknown:
            self._result.put(message=f"compute capability {unknown} is unknown to this version")
        return not unknown

    def _shape_inputs(self, network: "tensorrt.INetworkDefinition") -> list[str]:
        """Return the inputs whose values decide shapes, which only the parsed network shows."""
        inputs = (network.get_input(index) for index in range(network.num_inputs))
        return [each.name for each in inputs if each.is_shape_tensor]

    def _knows_values(self, network: "tensorrt.INetworkDefinition") -> bool:
        found = self._shape_inputs(network)
        self._result.put(shape_inputs=found)
        missing = [name for name in found for profile in self._request["profiles"] if name not in profile["values"]]
        if missing:
            self._result.put(problem="values", missing=list(dict.fromkeys(missing)))
        return not missing

    def _add_profiles(
        self, builder: "tensorrt.Builder", network: "tensorrt.INetworkDefinition", config: "tensorrt.IBuilderConfig"
    ) -> bool:
        profiles, shape_inputs = self._request["profiles"], self._shape_inputs(network)
        if not shape_inputs and not any(wanted["shapes"] for wanted in profiles):
            return True
        names = {network.get_input(index).name for index in range(network.num_inputs)}
        for wanted in profiles:
            profile = builder.create_optimization_profile()
            for entry in wanted["shapes"]:
                if entry["name"] in names:
                    profile.set_shape(entry["name"], entry["min"], entry["opt"], entry["max"])
            for name in shape_inputs:
                entry = wanted["values"][name]
                profile.set_shape_input(name, entry["min"], entry["opt"], entry["max"])
            # -1 means that min <= opt <= max does not hold. Shapes that are too small for a layer give only a warning.
            if config.add_optimization_profile(profile) < 0:
                self._result.put(message="the shapes make no valid optimization profile")
                return False
        return True

    def _write(self, engine: "tensorrt.IHostMemory") -> bool:
        self._result.put(stage="write")
        try:
            with Path(self._request["engine"]).open("wb") as file:
                file.write(engine)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            self._result.put(problem="write", message=os.strerror(error.errno or 0))
            return False
        return True


def name_gpus(trt: AheadOfTimeProduct, config: "tensorrt_rtx.IBuilderConfig", targets: list[str]) -> str:
    """Set the GPUs that TensorRT for RTX builds for.

    Returns:
        The first target that the builder does not know, or an empty text if it knows all.
    """
    # The number must be set first: with the default of 0, set_compute_capability refuses every index. Without targets
    # the RTX builder accepts FP8 and FP4 silently, although its default list begins at SM80.
    config.num_compute_capabilities = len(targets)
    known = trt.ComputeCapability.__members__
    for index, target in enumerate(targets):
        if target not in known or not config.set_compute_capability(known[target], index):
            return target
    return ""


if __name__ == "__main__":
    main(Path(sys.argv[1]))
    # All files are closed. The destructors of the library have nothing left to do and sometimes crash.
    os._exit(0)
