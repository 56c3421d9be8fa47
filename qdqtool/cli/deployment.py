"""The options of ``build`` that decide how an engine is deployed, as trtexec names them."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from qdqtool.cli.options import Decorated, OutputPath

if TYPE_CHECKING:
    from qdqtool.engines.tensorrt.deployment import DeploymentOptions

DEPLOYMENT = (
    "builder_optimization_level",
    "mem_pool_size",
    "timing_cache_file",
    "error_on_timing_cache_miss",
    "refit",
    "strip_weights",
    "version_compatible",
    "exclude_lean_runtime",
    "weight_streaming",
)
"""The names of the parameters, in the order of the help."""


def deployment_options() -> Callable[[Decorated], Decorated]:
    """The options; what the installed TensorRT does not have is refused."""

    def options(function: Decorated) -> Decorated:
        for add in reversed(_OPTIONS):
            function = add(function)
        return function

    return options


def take_deployment(words: dict[str, Any]) -> "DeploymentOptions":
    """Take the values of these options out of the arguments of the command."""
    from qdqtool.engines.tensorrt.deployment import DeploymentOptions, parse_pools

    given = {name: words.pop(name) for name in DEPLOYMENT}
    return DeploymentOptions(**{**given, "mem_pool_size": parse_pools(given["mem_pool_size"])})


def _flag(text: str, *names: str) -> Any:
    return click.option(*names, is_flag=True, help=text)


_OPTIONS = (
    click.option(
        "--builder-optimization-level",
        type=int,
        metavar="LEVEL",
        help="Effort of the builder, 0 to 5; its default is 3.",
    ),
    click.option(
        "--mem-pool-size",
        multiple=True,
        metavar="POOL:SIZE",
        help="Limit a memory pool, workspace or tacticSharedMem: workspace:1G; with B, K, M or G, else MiB.",
    ),
    click.option(
        "--timing-cache-file",
        type=OutputPath(),
        metavar="FILE",
        help="Read timings of kernels from this file if it is there, and write them to it after the build.",
    ),
    _flag("Refuse to measure a kernel that the timing cache does not have.", "--error-on-timing-cache-miss"),
    _flag("Build an engine whose weights can be replaced.", "--refit"),
    _flag("Leave the weights out of the engine; a refit brings them back.", "--strip-weights"),
    _flag("Build an engine that later releases of the major version run too.", "--version-compatible", "--vc"),
    _flag("Leave the lean runtime out of a version compatible engine.", "--exclude-lean-runtime"),
    _flag("Build an engine whose weights may stay in host memory.", "--weight-streaming", "--allow-weight-streaming"),
)
