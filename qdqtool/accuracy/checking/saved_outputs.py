"""Compare outputs that were computed elsewhere, such as outputs of an engine, with the reference."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from qdqtool.accuracy.checking.options import CheckOptions
from qdqtool.accuracy.checking.output_file import OutputReader, OutputWriter, storable
from qdqtool.accuracy.checking.outputs import Deviation, OutputCheck, nonfinite_count
from qdqtool.accuracy.checking.report import SavedOutputs
from qdqtool.accuracy.checking.sample_errors import SampleOrigin
from qdqtool.accuracy.task_metrics.measure import RequestedMetric
from qdqtool.accuracy.task_metrics.request import BASELINE, MODEL, SAVED, MetricComparison
from qdqtool.numerics.dtypes import Array
from qdqtool.samples.sample import Sample


class SavedCheck:
    """The comparison of a file with the reference, over all samples.

    Attributes:
        deviations: The deviation of each saved output from the reference, by name.
    """

    def __init__(self, reader: OutputReader, checks: Sequence[OutputCheck]) -> None:
        self._reader = reader
        self.deviations = {
            check.value.name: Deviation(check.deviation.maker, check.deviation.scale) for check in checks
        }
        self._nonfinite = dict.fromkeys(self.deviations, 0)

    def add(self, outputs: Mapping[str, Array], origin: SampleOrigin) -> dict[str, Array]:
        """Compare the next rows of the file with the outputs of one run, and return them."""
        taken: dict[str, Array] = {}
        for name, output in outputs.items():
            expected = storable(name, output)
            rows = taken[name] = self._reader.take(name, expected)
            self._nonfinite[name] += nonfinite_count(rows)
            self.deviations[name].add(expected, rows, origin)
        return taken

    def finish(self) -> None:
        """Check that the file has no further rows."""
        self._reader.finish()

    def report(self) -> SavedOutputs:
        """Return this part of the report."""
        return SavedOutputs(
            file=str(self._reader.path),
            outputs=tuple(deviation.result(name, self._nonfinite[name]) for name, deviation in self.deviations.items()),
        )


class OutputSinks(ExitStack):
    """Further uses of the outputs of one check. Use it as a context manager: it holds files open.

    Attributes:
        saved: The comparison with a file; None without one.
        metric: The task metric; None if none was requested.
        written: The file in which outputs are saved; None for no file.

    Raises:
        UsageError: The file has other outputs than the model, or the metric does not fit them.
    """

    def __init__(
        self, options: CheckOptions, checks: Sequence[OutputCheck], metric: RequestedMetric | None = None
    ) -> None:
        names = [check.value.name for check in checks]
        super().__init__()
        self._writer: OutputWriter | None = None
        self.saved: SavedCheck | None = None
        self.metric = MetricComparison(metric.measure(names)) if metric is not None else None
        self.written: Path | None = options.save_outputs
        if options.outputs is not None:
            reader = self.enter_context(OutputReader(options.outputs, names))
            self.saved = SavedCheck(reader, checks)
        if options.save_outputs is not None:
            self._writer = self.enter_context(OutputWriter(options.save_outputs))

    def add(
        self, sample: Sample, origin: SampleOrigin, outputs: Mapping[str, Array], baseline: Mapping[str, Array]
    ) -> None:
        """Process the outputs of one run, without padded rows."""
        real = {name: sample.without_filler(output) for name, output in outputs.items()}
        saved = self.saved.add(real, origin) if self.saved is not None else {}
        if self._writer is not None:
            for name, output in real.items():
                self._writer.add(name, storable(name, output))
        if self.metric is not None:
            for source, arrays in ((MODEL, outputs), (BASELINE, baseline), (SAVED, saved)):
                self.metric.add(source, arrays, sample)

    def finish(self) -> None:
        """Finish after the last sample."""
        if self.saved is not None:
            self.saved.finish()
        if self._writer is not None:
            self._writer.save()
