"""The child process that parses and builds models, one after another: requests and answers are lines of JSON.

Run as ``python -m benchmarks.refused.judge_child MODULE``. An answer line has what is known so far, so that a crash
leaves it: ``errors`` and ``further`` of the parser, ``stage``, the builder's ``log``, ``layers`` (the layer dump, if
the request has ``layers``), and ``done`` at the end.
"""

import importlib
import json
import os
import sys
from pathlib import Path
from typing import Any, TextIO

from qdqtool.engines.tensorrt.parsing import errors_of, new_network, survey

SURVEY_SECONDS = 3.0


def main(module: str) -> None:
    """Answer requests until standard input ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    # The compiler prints too, and standard output is for answers alone.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    trt = importlib.import_module(module)
    log = _make_log(trt)
    builder = trt.Builder(log)
    for line in sys.stdin:
        log.errors.clear()
        _answer(trt, builder, log, json.loads(line), answers)


def _answer(trt: Any, builder: Any, log: Any, request: dict[str, Any], answers: TextIO) -> None:
    path = Path(request["model"])
    network = new_network(trt, builder)
    parser = trt.OnnxParser(network, log)
    if not parser.parse_from_file(str(path)):
        errors = errors_of(parser)
        _say(answers, stage="parse", errors=errors)
        _say(answers, further=survey(trt, builder, log, path, errors[0], SURVEY_SECONDS), done=True)
        return
    _say(answers, stage="build")
    log.errors.clear()
    config = _configured(trt, builder, network, request)
    engine = builder.build_serialized_network(network, config) if config is not None else None
    layers = {"layers": log.layers} if "layers" in request else {}
    _say(answers, stage="built" if engine is not None else "build", log=log.errors, **layers, done=True)


def _configured(trt: Any, builder: Any, network: Any, request: dict[str, Any]) -> Any | None:
    config = builder.create_builder_config()
    config.profiling_verbosity = trt.ProfilingVerbosity.DETAILED
    config.num_compute_capabilities = len(request["targets"])
    for index, target in enumerate(request["targets"]):
        config.set_compute_capability(trt.ComputeCapability.__members__[target], index)
    profile, is_used = builder.create_optimization_profile(), False
    for each in (network.get_input(index) for index in range(network.num_inputs)):
        if each.is_shape_tensor:
            values = request["values"].get(each.name) or [1] * max(1, *each.shape, 1)
            profile.set_shape_input(each.name, values, values, values)
            is_used = True
        elif -1 in tuple(each.shape):
            shape = [request["size"] if dim == -1 and axis else abs(dim) for axis, dim in enumerate(each.shape)]
            profile.set_shape(each.name, shape, shape, shape)
            is_used = True
    if is_used and config.add_optimization_profile(profile) < 0:
        return None
    return config


def _say(answers: TextIO, **facts: Any) -> None:
    answers.write(json.dumps(facts) + "\n")
    answers.flush()


def _make_log(trt: Any) -> Any:
    class Log(trt.ILogger):  # type: ignore[misc]  # the module is only known when it runs
        def __init__(self) -> None:
            trt.ILogger.__init__(self)
            self.errors: list[tuple[str, str]] = []
            self.layers = ""

        def log(self, severity: Any, message: str) -> None:
            if "ERROR" in severity.name:
                self.errors.append((severity.name, message))
            elif message.startswith("Layers:"):
                self.layers = message

    return Log()


if __name__ == "__main__":
    main(sys.argv[1])
    os._exit(0)
