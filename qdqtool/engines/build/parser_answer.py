"""Ask TensorRT's parser about models in the background, while the rules judge them."""

import contextlib
import shlex
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from qdqtool.engines.build.options import DEFAULT_TIMEOUT, BuildOptions
from qdqtool.engines.tensorrt import backends
from qdqtool.engines.tensorrt.deployment import FLAGS, DeploymentOptions, spelled
from qdqtool.engines.tensorrt.operator_hints import with_path
from qdqtool.engines.tensorrt.parser_errors import explained, parser_refusal
from qdqtool.engines.tensorrt.parser_process import Parsed, ParserProcess
from qdqtool.engines.tensorrt.tensorrt_builder import TensorRT
from qdqtool.errors import CapabilityError, ModelError
from qdqtool.linting.parser_answer import PARSER_TARGET, ParserAnswer, ParserFault
from qdqtool.models.graph.io.external import model_bytes
from qdqtool.models.graph.io.load import load_model
from qdqtool.models.graph.io.metadata import read_metadata
from qdqtool.models.graph.model import Model
from qdqtool.models.plugins import KEY as PLUGIN_KEY
from qdqtool.samples.input_shapes import spell_shapes, spell_value_options, spell_values


def reduce_command(model: Path, backend: str, options: BuildOptions) -> str:
    """Return the ``qdqtool reduce`` command that finds the smallest model that is refused in the same way."""
    fixed = options.shapes.fixed
    words = ["qdqtool", "reduce", str(model), "--fails", "build", "-o", "small.onnx"]
    # reduce fixes shapes once, before it removes nodes. As options of build, the shapes would keep every input.
    words += ["--input-shapes", spell_shapes(fixed)] if fixed else []
    words += ["--timeout", f"{options.timeout:g}"] if options.timeout != DEFAULT_TIMEOUT else []
    return shlex.join([*words, "--", "--backend", backend, *_options(options)])


def _options(options: BuildOptions) -> Iterator[str]:
    if options.skip_validate:
        yield "--skip-validate"
    if options.compute_capabilities:
        yield from ("--compute-capabilities", ",".join(options.compute_capabilities))
    if options.calib_data is not None:
        yield from ("--calib-data", str(options.calib_data.path))
    yield from spell_value_options(options.input_values)
    shapes, values = options.shapes, options.shape_values
    extents = zip((shapes.min, shapes.opt, shapes.max), (values.min, values.opt, values.max), strict=True)
    for kind, (sizes, numbers) in zip(("min", "opt", "max"), extents, strict=True):
        if sizes:
            yield from (f"--{kind}-shapes", spell_shapes(sizes))
        for name, given in numbers.items():
            yield from (f"--{kind}-shape-values", f"{name}:{spell_values(given)}")
    for each in options.plugin_ops:
        yield from ("--plugin-ops", str(each))
    yield from _deployment(options.deployment)


def _deployment(options: DeploymentOptions) -> Iterator[str]:
    # The timing cache is left out: it changes which kernels are measured, but not whether a model is refused.
    yield from (spelled(name) for name in (*FLAGS, "serialize_plugins") if getattr(options, name))
    for library in options.plugins:
        yield from ("--plugins", str(library))
    if options.builder_optimization_level is not None:
        yield from (spelled("builder_optimization_level"), str(options.builder_optimization_level))
    if options.mem_pool_size:
        yield from (
            spelled("mem_pool_size"),
            ",".join(f"{name}:{size}B" for name, size in options.mem_pool_size.items()),
        )


MOST_BYTES = 10**9
"""Models with more bytes are parsed only on request: the parser reads all weights (1 GB takes about a second)."""
SECONDS = 30.0
"""The time limit for one model; 1 GB of weights takes about a second."""
FURTHER_SECONDS = 3.0
"""Time limit for the search for further refused nodes."""

_UNCHECKED = BuildOptions(skip_validate=True)
_WITHOUT = "without --parser only the rules are checked"


@contextlib.contextmanager
def asked_about(
    paths: Iterable[Path], load: Callable[[Path], Model] = load_model, *, demanded: bool
) -> Iterator[Callable[[Path], ParserAnswer]]:
    """Parse files one after another in one warm child process; yield a function that waits for the answer on a file.

    Args:
        paths: The files.
        load: Reads a model.
        demanded: Whether to parse models of any size, and to raise an error without a parser.
    """
    builder = backends.get(PARSER_TARGET)
    if demanded:
        builder.require()
    if not builder.is_installed():
        yield lambda _: ParserAnswer(status="absent", note=f"{builder.title} is not installed")
        return
    process = ParserProcess(builder.module, seconds=SECONDS, further_seconds=FURTHER_SECONDS)
    with contextlib.suppress(OSError):
        process.start()
    pool = ThreadPoolExecutor(1, "parser")
    try:
        words: dict[Path, Future[ParserAnswer]] = {
            path: pool.submit(_ask, builder, process, path, load, demanded) for path in dict.fromkeys(paths)
        }
        yield lambda path: _demand(words[path].result()) if demanded else words[path].result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        process.stop()


def _demand(word: ParserAnswer) -> ParserAnswer:
    if word.status == "absent":
        raise CapabilityError(word.note, hint=f"`qdqtool doctor` lists what works here; {_WITHOUT}")
    return word


def _ask(
    builder: TensorRT, process: ParserProcess, path: Path, load: Callable[[Path], Model], demanded: bool
) -> ParserAnswer:
    plugins = ""
    try:
        size = path.stat().st_size
        if size <= MOST_BYTES or demanded:
            # This must run before the parser opens the file: it refuses external data outside the folder, which the
            # parser would read.
            model = load(path)
            size, plugins = model_bytes(model), read_metadata(model, PLUGIN_KEY) or ""
    except (ModelError, OSError):
        return ParserAnswer(status="off", note="the model cannot be read")
    if size > MOST_BYTES and not demanded:
        return ParserAnswer(status="off", note=f"{size / 1e9:.1f} GB; --parser runs it anyway")
    try:
        return _word(builder, path, process.ask(path, plugins))
    except OSError as error:
        return ParserAnswer(status="absent", note=f"no process can be started for it: {error.strerror}")


def _word(builder: TensorRT, path: Path, parsed: Parsed) -> ParserAnswer:
    title = builder.title
    version = f"{title} {parsed.facts.get('version', '')}".rstrip()
    match parsed.end:
        case "absent":
            return ParserAnswer(status="absent", note=f"{title} cannot be loaded: {parsed.problem}")
        case "timed out":
            return ParserAnswer(status="timed out", note=f"{version} gave no answer in {SECONDS:g} s")
        case "died":
            reduce = reduce_command(path, builder.id, _UNCHECKED)
            fault = ParserFault(
                title=version,
                reason=f"its parser crashes on this model ({parsed.problem})",
                hint=f"this is a fault of TensorRT; `{reduce}` finds the smallest model with it",
            )
            return ParserAnswer(status="asked", note=version, messages=(f"died: {parsed.problem}",), faults=(fault,))
    return _answer(version, builder, path, parsed)


def _answer(version: str, builder: TensorRT, path: Path, parsed: Parsed) -> ParserAnswer:
    # Dicts keep the order and drop repetitions.
    faults: dict[ParserFault, None] = {}
    messages: dict[str, None] = {}
    unknown = f"`{reduce_command(path, builder.id, _UNCHECKED)}` finds the smallest model with this message"
    for error in explained(parsed.facts["errors"], parsed.facts.get("further", [])):
        refusal = parser_refusal(error)
        fault = ParserFault(
            title=version,
            reason=refusal.reason,
            hint=with_path(refusal.hint or "", path) if refusal.explained else unknown,
            name=error["name"],
            index=error["node"],
            op_type=error["operator"],
        )
        faults[fault] = None
        messages[refusal.message] = None
    return ParserAnswer(status="asked", note=version, messages=tuple(messages), faults=tuple(faults))
