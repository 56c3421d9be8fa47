"""What TensorRT for RTX really says about a model: an oracle for the rules, apart from the package's own build code.

Parser and builder run in one spawned child for many models; when a model kills it, the next gets a new one.
"""

import multiprocessing
import os
import re
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Literal

import onnx

Stage = Literal["built", "parser", "builder", "crash", "timeout"]

SECONDS = 120


@dataclass(frozen=True, slots=True)
class Verdict:
    """How far a model came: ``built``, or where it was refused and with which words; ``layers`` is the layer dump."""

    stage: Stage
    message: str = ""
    layers: str = ""
    plan: bytes = b""

    @property
    def accepted(self) -> bool:
        return self.stage == "built"

    def convolution(self, node: str) -> str:
        """The line of the layer dump that convolves for ``node``, a Conv or ConvTranspose.

        Raises:
            LookupError: There is none.
        """
        kinds = re.compile(r"LayerType: (correlation|deconv)")
        for line in self.layers.splitlines():
            if f"[ONNX Layer: {node}]" in line and kinds.search(line):
                return line
        raise LookupError(f"no convolution of {node} in:\n{self.layers}")


class TrtOracle:
    """A child process that parses and builds models."""

    def __init__(self) -> None:
        self._context = multiprocessing.get_context("spawn")
        self._process = None
        self._pipe: Connection | None = None

    def judge(self, model: onnx.ModelProto, compute_capabilities: tuple[int, ...] = ()) -> Verdict:
        """The verdict on a model; ``compute_capabilities`` are GPUs to build for, 86 for 8.6."""
        if self._process is None or not self._process.is_alive():
            self._start()
        self._pipe.send((model.SerializeToString(), compute_capabilities))
        try:
            if not self._pipe.poll(SECONDS):
                self._stop()
                return Verdict("timeout")
            return self._pipe.recv()
        except (EOFError, ConnectionResetError, BrokenPipeError):
            self._stop()
            return Verdict("crash", "the child process died")

    def close(self) -> None:
        if self._process is not None:
            self._stop()

    def _start(self) -> None:
        ours, theirs = self._context.Pipe()
        self._process = self._context.Process(target=_serve, args=(theirs,), daemon=True)
        self._process.start()
        theirs.close()
        self._pipe = ours

    def _stop(self) -> None:
        self._process.kill()
        self._process.join()
        self._pipe.close()
        self._process = None


def _serve(pipe: Connection) -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # the compiler also writes to the process's own stderr
    import tensorrt_rtx as trt

    class Logger(trt.ILogger):
        def __init__(self) -> None:
            trt.ILogger.__init__(self)
            self.lines: list[str] = []

        def log(self, severity: object, message: str) -> None:
            self.lines.append(message)

    logger = Logger()
    builder = trt.Builder(logger)
    while True:
        try:
            data, compute_capabilities = pipe.recv()
        except EOFError:
            return
        logger.lines.clear()
        pipe.send(_judge(trt, logger, builder, (data, compute_capabilities)))


def _judge(trt: object, logger: object, builder: object, asked: tuple[bytes, tuple[int, ...]]) -> Verdict:
    data, compute_capabilities = asked
    network = builder.create_network(0)
    parser = trt.OnnxParser(network, logger)
    if not parser.parse(data):
        errors = [parser.get_error(index) for index in range(parser.num_errors)]
        return Verdict("parser", "; ".join(error.desc() for error in errors) or "no message")
    config = builder.create_builder_config()
    _name_gpus(trt, config, compute_capabilities)
    config.profiling_verbosity = trt.ProfilingVerbosity.DETAILED
    _add_profile(network, builder, config)
    plan = builder.build_serialized_network(network, config)
    if plan is None:
        return Verdict("builder", "\n".join(logger.lines[-3:]))
    layers = next((line for line in logger.lines if line.lstrip().startswith("Layers:")), "")
    return Verdict("built", layers=layers, plan=bytes(plan))


def _name_gpus(trt: object, config: object, compute_capabilities: tuple[int, ...]) -> None:
    if compute_capabilities:
        config.num_compute_capabilities = len(compute_capabilities)
    for index, number in enumerate(compute_capabilities):
        config.set_compute_capability(getattr(trt.ComputeCapability, f"SM{number}"), index)


def _add_profile(network: object, builder: object, config: object) -> None:
    inputs = [network.get_input(index) for index in range(network.num_inputs)]
    if not any(-1 in tuple(each.shape) for each in inputs):
        return
    profile = builder.create_optimization_profile()
    for each in inputs:
        shape = [1 if dim == -1 else dim for dim in each.shape]
        profile.set_shape(each.name, shape, shape, shape)
    config.add_optimization_profile(profile)
