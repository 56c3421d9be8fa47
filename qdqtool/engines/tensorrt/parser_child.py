"""The child process that only parses models: it reads requests and writes answers, one line of JSON each.

Run as ``python -m qdqtool.engines.tensorrt.parser_child MODULE``. The first line that it writes has the version of the
module, or the reason why the module cannot be loaded. A request has the ``model``, in ``seconds`` the time limit for
the search for further refused nodes, and in ``plugins`` the note of the plugin operators. Each result is written at
once, since the parser may crash at any time:
``errors`` of the first parse, then ``further`` errors; the last line of an answer has ``done``. The process ends when
its standard input ends.
"""

import importlib
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, cast

from qdqtool.engines.tensorrt.parsing import TensorRTModule, errors_of, new_network, survey
from qdqtool.engines.tensorrt.refused_nodes import without_plugins

if TYPE_CHECKING:
    import tensorrt


def main(module: str) -> None:
    """Answer requests until standard input ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    # The libraries print too, and standard output is only for answers.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    try:
        trt = cast(TensorRTModule, importlib.import_module(module))
        log = _silent(trt)
        # Without a usable GPU TensorRT (not RTX) cannot make a builder: pybind11 turns the null pointer into a
        # TypeError.
        builder = trt.Builder(log)
    except (ImportError, OSError, TypeError, RuntimeError) as error:
        _say(answers, problem=str(error))
        return
    _say(answers, version=trt.__version__)
    for line in sys.stdin:
        request = json.loads(line)
        path = Path(request["model"])
        network = new_network(trt, builder)
        parser = trt.OnnxParser(network, log)
        plain = without_plugins(path, request["plugins"]) if request["plugins"] else None
        # External data is found only with a path. As str, its name would have to be UTF-8; pybind11 takes bytes too.
        parsed = parser.parse_from_file(os.fsencode(path)) if plain is None else parser.parse(plain, str(path))  # type: ignore[arg-type]
        errors = [] if parsed else errors_of(parser)
        _say(answers, errors=errors)
        if errors:
            _say(
                answers,
                further=survey(trt, builder, log, path, errors[0], request["seconds"], plugins=request["plugins"]),
            )
        _say(answers, done=True)


def _say(answers: TextIO, **facts: Any) -> None:
    answers.write(json.dumps(facts) + "\n")
    answers.flush()


def _silent(trt: TensorRTModule) -> "tensorrt.ILogger":
    logger = trt.ILogger

    class Silent(logger):  # type: ignore[misc, valid-type]  # the module is only known when it runs
        def log(self, severity: "tensorrt.ILogger.Severity", message: str) -> None:
            """Keep nothing: the parser returns its errors itself."""

    return Silent()


if __name__ == "__main__":
    main(sys.argv[1])
    # The destructors of the library sometimes crash.
    os._exit(0)
