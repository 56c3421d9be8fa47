"""The command line that reduces a model which was refused, with the options of the build."""

import shlex
from collections.abc import Iterator
from pathlib import Path

from qdqtool.engines.build.options import DEFAULT_TIMEOUT, BuildOptions
from qdqtool.engines.tensorrt.deployment import FLAGS, DeploymentOptions, spelled
from qdqtool.samples.input_shapes import spell_shapes, spell_values


def reduce_command(model: Path, backend: str, options: BuildOptions) -> str:
    """Return the ``qdqtool reduce`` command that looks for the smallest model which is refused alike.

    Args:
        model: The file that was to be built.
        backend: The backend that refused it.
        options: The options of the build.
    """
    fixed = options.shapes.fixed
    words = ["qdqtool", "reduce", str(model), "--fails", "build", "-o", "small.onnx"]
    # reduce fixes shapes once, before it cuts; as an option of build they would keep every input in the model.
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
    for name, fixed in options.input_values.items():
        yield from ("--input-values", f"{name}:{spell_values(fixed)}")
    shapes, values = options.shapes, options.shape_values
    for kind, sizes, numbers in (
        ("min", shapes.min, values.min),
        ("opt", shapes.opt, values.opt),
        ("max", shapes.max, values.max),
    ):
        if sizes:
            yield from (f"--{kind}-shapes", spell_shapes(sizes))
        for name, given in numbers.items():
            yield from (f"--{kind}-shape-values", f"{name}:{spell_values(given)}")
    yield from _deployment(options.deployment)


def _deployment(options: DeploymentOptions) -> Iterator[str]:
    # Without the timing cache: it changes which kernels are measured, and not what is refused.
    yield from (spelled(name) for name in FLAGS if getattr(options, name))
    if options.builder_optimization_level is not None:
        yield from (spelled("builder_optimization_level"), str(options.builder_optimization_level))
    if options.mem_pool_size:
        yield from (
            spelled("mem_pool_size"),
            ",".join(f"{name}:{size}B" for name, size in options.mem_pool_size.items()),
        )
