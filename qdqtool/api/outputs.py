"""Return models in memory: a job writes into a temporary folder, and the model is read into the report."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Protocol, TypeVar

from qdqtool.errors import UsageError
from qdqtool.models.graph.io.load import load_model
from qdqtool.models.graph.io.save import TooLargeError
from qdqtool.models.graph.model import Model
from qdqtool.models.graph.report import WrittenModelReport
from qdqtool.models.options import ExternalData
from qdqtool.models.scratch import ScratchFolder


class _HasExternalData(Protocol):
    @property
    def external_data(self) -> ExternalData: ...


Options = TypeVar("Options", bound=_HasExternalData)
Made = TypeVar("Made", bound=WrittenModelReport)


def write_or_keep(output: str | Path | None, options: Options, job: Callable[[Path, Options], Made]) -> Made:
    """Run a job that writes a model; without an output, the model is kept in the report and no file stays.

    Args:
        output: The file to write; None to keep the model in memory.
        options: Options of the job.
        job: Runs the job with the file and the options.

    Raises:
        UsageError: There is no output, but the model is larger than 2 GiB or external data is requested.
    """
    if output is not None:
        return job(Path(output), options)
    if options.external_data is ExternalData.ALWAYS:
        raise UsageError("external_data is 'always', but output is not given", hint="add output='OUT.onnx'")
    with ScratchFolder("qdqtool-model-") as folder:
        file = folder.path / "model.onnx"
        try:
            report = job(file, replace(options, external_data=ExternalData.NEVER))  # type: ignore[type-var]
        except TooLargeError:
            raise UsageError(
                "the result is larger than 2 GiB, the limit of a ModelProto in memory",
                hint="give output='OUT.onnx'; the weights are then written to a file beside it",
            ) from None
        made = Model(load_model(file).proto)
    kept = replace(report, output="")  # type: ignore[type-var]
    kept.keep(made)
    return kept
