"""Every attribute and call of the runners, held against the packages that are installed: no GPU is needed for that.

What the modules of ``qdqtool/engines/gpu`` ask of CUDA, NVML, TensorRT and ONNX Runtime is read from their source. Each
must exist in the real package, take as many arguments, and of TensorRT's methods take such arguments in this order.
"""

import ast
import functools
import inspect
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.paths import ROOT

from qdqtool.engines.gpu import tensor_types, tensorrt_runner
from qdqtool.engines.gpu.clocks import Cuda
from qdqtool.engines.gpu.requirements import is_installed
from qdqtool.engines.gpu.tensorrt_runner import TensorRTRunner
from qdqtool.engines.tensorrt import gpus
from qdqtool.errors import CapabilityError, ModelError

TRT = {
    "self._trt": "",
    "trt": "",
    "self._runtime": "Runtime",
    "self._engine": "ICudaEngine",
    "engine": "ICudaEngine",
    "self._context": "IExecutionContext",
    "inspector": "EngineInspector",
    "layout": "TensorFormat.LINEAR",
    "severity": "ILogger.Severity.ERROR",
}
OBJECTS: Mapping[str, Mapping[str, Mapping[str, str]]] = {
    "clocks": {
        "cuda.bindings.runtime": {"self._cudart": "", "status": "cudaError_t.cudaSuccess"},
        "pynvml": {"pynvml": "", "self._nvml": ""},
    },
    "tensorrt_runner": {"tensorrt_rtx": TRT},
    "tensor_types": {"tensorrt_rtx": TRT},
    "runners": {
        "onnxruntime": {
            "ort": "",
            "options": "SessionOptions",
            "self._session": "InferenceSession",
            "value": "NodeArg",
            "each": "NodeArg",
            "device": "capi.onnxruntime_pybind11_state.OrtEpDevice",
        },
        "onnxruntime_ep_nv_tensorrt_rtx": {"provider": ""},
    },
}
"""What the expressions in each module stand for: a package, and the path of an object in it."""

KINDS = {
    "name": "str",
    "tensor.name": "str",
    "index": "int",
    "_PROFILE": "int",
    "address": "int",
    "int(self._stream)": "int",
    "array.shape": "tuple",
    "self._allocator": "IOutputAllocator",
    "self._log": "ILogger",
    "content": "Buffer",
    "self._trt.LayerInformationFormat.JSON": "LayerInformationFormat",
    "_devices(ort)": "Sequence[OrtEpDevice]",
    "{}": "Mapping[str, str]",
    "provider.get_library_path()": "str",
}
"""The type of every argument that a method of TensorRT or of ONNX Runtime is given."""
OTHER_ANY = {"stream", "event", "start", "end", "memory", "shape", "function", "arguments", "found", "runtime"}
"""Values of type Any of which no attribute is read, or that a module of the table is first called by."""


PROVIDER = "onnxruntime_ep_nv_tensorrt_rtx"
"""A package of 150 MB, which no extra that ``make`` installs has: without it the rest of its module is looked at."""


def source(module: str) -> str:
    return (ROOT / "qdqtool" / "engines" / "gpu" / f"{module}.py").read_text(encoding="utf-8")


@functools.cache
def objects(module: str) -> Mapping[str, Any]:
    """The real object that each expression of a module stands for; the test is skipped where a package is absent."""
    found = {}
    for package, expressions in OBJECTS[module].items():
        if package == PROVIDER and not is_installed(package):
            continue
        real = pytest.importorskip(package)
        for expression, path in expressions.items():
            found[expression] = functools.reduce(getattr, path.split(".") if path else [], real)
    return found


def faults(module: str, tree: ast.AST) -> Iterator[str]:
    """What a module asks for that the real packages lack."""
    known = objects(module)
    inner = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and id(node) not in inner and is_real(node, known):
            yield from missing(node, known)
        if isinstance(node, ast.Call):
            yield from wrong_arguments(node, known)


def is_real(node: ast.expr, known: Mapping[str, Any]) -> bool:
    return isinstance(node, ast.Attribute) and (ast.unparse(node.value) in known or is_real(node.value, known))


def resolved(node: ast.expr, known: Mapping[str, Any]) -> Any:
    text = ast.unparse(node)
    if text in known:
        return known[text]
    assert isinstance(node, ast.Attribute)
    return getattr(resolved(node.value, known), node.attr)


def missing(node: ast.Attribute, known: Mapping[str, Any]) -> Iterator[str]:
    if ast.unparse(node) in known:
        return
    try:
        found = resolved(node, known)
    except AttributeError:
        yield f"{node.lineno}: {ast.unparse(node)} does not exist"
        return
    if isinstance(node.ctx, ast.Store) and not (isinstance(found, property) and found.fset is not None):
        yield f"{node.lineno}: {ast.unparse(node)} cannot be set"


def wrong_arguments(node: ast.Call, known: Mapping[str, Any]) -> Iterator[str]:
    function, arguments = node.func, node.args
    if ast.unparse(function) == "self._call":
        function, arguments = node.args[0], node.args[1:]
    if ast.unparse(function).endswith(".__init__"):
        arguments = arguments[1:]
    if not is_real(function, known) or any(isinstance(each, ast.Starred) for each in arguments):
        return
    try:
        real = resolved(function, known)
    except AttributeError:
        return
    words = {each.arg for each in node.keywords}
    if not callable(real):
        yield f"{node.lineno}: {ast.unparse(function)} is no function"
    elif overloads(real):
        if not any(fits(overload, arguments) for overload in overloads(real)):
            yield f"{node.lineno}: {ast.unparse(node)} fits none of {overloads(real)}"
    elif not isinstance(real, type) or real.__init__ is not object.__init__:
        yield from unbound(node, real, len(arguments), words)


def unbound(node: ast.Call, real: Any, count: int, words: set[str]) -> Iterator[str]:
    is_method = "self" in inspect.signature(real).parameters if not inspect.isclass(real) else False
    try:
        inspect.signature(real).bind(*([None] * (count + is_method)), **dict.fromkeys(words))
    except TypeError as error:
        yield f"{node.lineno}: {ast.unparse(node)}: {error}"
    except ValueError:
        pass  # a class of pybind11, whose constructor has no signature


def overloads(real: Any) -> list[list[str]]:
    return documented(real.__name__, real.__doc__ or "")


@functools.cache
def documented(name: str, text: str) -> list[list[str]]:
    """The types of the arguments of a function of pybind11, without self, as its documentation has them.

    An argument with a default is left out: none of ours has one.
    """
    found = re.findall(rf"^(?:\d+\. )?{name}\((.*)\) -> ", text, re.MULTILINE)
    split = [re.split(r", (?=\w+: )", signature) for signature in found if signature != "*args, **kwargs"]
    return [
        [each.partition(": ")[2] for each in parts if each and not each.startswith("self") and " = " not in each]
        for parts in split
    ]


def fits(overload: list[str], arguments: list[ast.expr]) -> bool:
    return len(overload) == len(arguments) and (
        all(
            takes(each, KINDS.get(ast.unparse(given), "not known"))
            for each, given in zip(overload, arguments, strict=True)
        )
    )


def takes(annotation: str, kind: str) -> bool:
    plain = re.sub(r"\b(?:\w+\.)+(?=\w)", "", annotation)
    return kind == {"SupportsInt": "int"}.get(plain, plain)


@pytest.mark.parametrize("module", OBJECTS)
def test_the_real_packages_have_all_that_is_asked_of_them(module: str):
    assert list(faults(module, ast.parse(source(module)))) == []


@pytest.mark.parametrize("module", OBJECTS)
def test_a_misspelled_name_is_found_wherever_it_stands(module: str):
    known = objects(module)
    tree = ast.parse(source(module))
    inner = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    asked = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and id(node) not in inner
        and is_real(node, known)
        and ast.unparse(node) not in known
    ]
    assert asked
    for node in asked:
        right, node.attr = node.attr, f"{node.attr}_"
        assert list(missing(node, known)), f"{right} in line {node.lineno}"
        node.attr = right


@pytest.mark.parametrize("module", ["clocks", "tensorrt_runner", "tensor_types"])
def test_an_argument_too_many_is_found_wherever_it_stands(module: str):
    tree = ast.parse(source(module))
    known = objects(module)
    calls = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and (is_real(node.func, known) or ast.unparse(node.func) == "self._call")
        and not isinstance(resolved(node.func, known) if is_real(node.func, known) else None, type)
    ]
    assert calls
    for node in calls:
        node.args.append(ast.parse("name", mode="eval").body)
        assert list(wrong_arguments(node, known)), ast.unparse(node)
        node.args.pop()


def test_arguments_in_the_wrong_order_are_found():
    tree = ast.parse("self._context.set_input_shape(array.shape, tensor.name)")
    assert list(faults("tensorrt_runner", tree))


@pytest.mark.parametrize("module", OBJECTS)
def test_no_value_without_a_type_is_left_out(module: str):
    tree = ast.parse(source(module))
    untyped = {
        ast.unparse(node.target) if isinstance(node, ast.AnnAssign) else node.arg
        for node in ast.walk(tree)
        if isinstance(node, ast.AnnAssign | ast.arg)
        and node.annotation is not None
        and ast.unparse(node.annotation) == "Any"
    }
    read = {ast.unparse(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    known = {expression for package in OBJECTS[module].values() for expression in package}
    assert untyped
    assert (untyped & read) - known == set()


def test_the_provider_is_where_it_says():
    provider = pytest.importorskip(PROVIDER)
    assert Path(provider.get_library_path()).is_file()
    assert provider.get_ep_name() == "NvTensorRTRTXExecutionProvider"


def test_what_tensorrt_calls_has_its_names_and_arguments():
    trt = pytest.importorskip("tensorrt_rtx")
    made = (
        (tensorrt_runner.new_log(trt), trt.ILogger, {"log"}),
        (tensorrt_runner.new_profiler(trt), trt.IProfiler, {"report_layer_time"}),
        (
            tensorrt_runner.new_allocator(trt, lambda name, size: 0),
            trt.IOutputAllocator,
            {"reallocate_output", "reallocate_output_async", "notify_shape"},
        ),
    )
    for hook, base, names in made:
        documented = dict(re.findall(r"def (\w+)\(self(?:, )?(.*)\):", base.__doc__ or ""))
        documented.pop("__init__", None)
        assert set(documented) == names
        assert isinstance(hook, base)
        for name, arguments in documented.items():
            assert list(inspect.signature(getattr(hook, name)).parameters) == arguments.split(", ")


def test_types_and_severities_are_those_of_tensorrt():
    trt = pytest.importorskip("tensorrt_rtx")
    assert set(tensor_types._TENSORRT) == set(trt.DataType.__members__) - {"INT4", "FP4", "E8M0"}
    assert set(tensorrt_runner._QUIET) | {"ERROR", "INTERNAL_ERROR"} == set(trt.ILogger.Severity.__members__)
    for name, dtype in tensor_types._TENSORRT.items():
        assert trt.DataType.__members__[name].itemsize == dtype.itemsize


class TestWithoutGpu:
    """The real packages take our arguments; then they find no driver."""

    @pytest.fixture(autouse=True)
    def no_gpu(self):
        if gpus.find_gpus()[0]:
            pytest.skip("there is a GPU")

    def test_cuda_takes_every_call_and_finds_no_driver(self):
        cudart = pytest.importorskip("cuda.bindings.runtime")
        array, stream, event = np.zeros(3, np.float32), cudart.cudaStream_t(0), cudart.cudaEvent_t(0)
        cuda = Cuda()
        calls = {
            "allocate": (8,),
            "free": (1 << 20,),
            "copy_in": (1 << 20, array, stream),
            "copy_out": (array, 1 << 20, stream),
            "new_stream": (),
            "synchronize": (stream,),
            "destroy_stream": (cudart.cudaStream_t(1),),
            "new_event": (),
            "record": (event, stream),
            "milliseconds": (event, event),
            "destroy_event": (event,),
            "bus_id": (),
        }
        assert set(calls) == {name for name in vars(Cuda) if not name.startswith("_")}
        for name, arguments in calls.items():
            with pytest.raises(CapabilityError, match=r"CUDA fails: .*\(cuda\w+, cudaError\w+\)"):
                getattr(cuda, name)(*arguments)

    def test_tensorrt_tells_our_log_why_it_takes_no_engine(self, tmp_path):
        pytest.importorskip("tensorrt_rtx")
        pytest.importorskip("cuda.bindings.runtime")
        (tmp_path / "e.engine").write_bytes(b"vtrt" + bytes(64))
        with pytest.raises(ModelError, match=r"tensorrt-rtx [\d.]+ cannot load .* on this GPU: .*[Cc]uda"):
            TensorRTRunner(tmp_path / "e.engine", "tensorrt-rtx")
