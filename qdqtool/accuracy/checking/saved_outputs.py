"""Compare outputs that were computed elsewhere, such as those of an engine, with those of the reference."""

from collections.abc import Mapping, Sequence

from qdqtool.accuracy.checking.output_file import OutputReader, storable
from qdqtool.accuracy.checking.outputs import Deviation, OutputCheck, nonfinite_count
from qdqtool.accuracy.checking.report import SavedOutputs
from qdqtool.accuracy.checking.sample_errors import SampleOrigin
from qdqtool.numerics.dtypes import Array


class SavedCheck:
    """The comparison of a file with the reference, over all samples.

    Args:
        reader: The file.
        checks: The outputs of the model.
    """

    def __init__(self, reader: OutputReader, checks: Sequence[OutputCheck]) -> None:
        self._reader = reader
        self._checks = checks
        self._deviations = {check.value.name: Deviation(check.maker, check.scale) for check in checks}
        self._nonfinite = dict.fromkeys(self._deviations, 0)

    def add(self, outputs: Mapping[str, Array], origin: SampleOrigin) -> dict[str, Array]:
        """Compare the next rows of the file with the outputs of one run, and return them.

        Raises:
            UsageError: Type, shape or number of rows differ.
        """
        taken: dict[str, Array] = {}
        for name, output in outputs.items():
            expected = storable(name, output)
            rows = taken[name] = self._reader.take(name, expected)
            self._nonfinite[name] += nonfinite_count(rows)
            self._deviations[name].add(expected, rows, origin)
        return taken

    def finish(self) -> None:
        """Check that the file has no further rows.

        Raises:
            UsageError: It has further rows.
        """
        self._reader.finish()

    def report(self) -> SavedOutputs:
        """Return the part of the report."""
        return SavedOutputs(
            file=str(self._reader.path),
            outputs=tuple(
                deviation.result(name, self._nonfinite[name]) for name, deviation in self._deviations.items()
            ),
        )

    def deviation(self, output: str) -> Deviation:
        """Return how far a saved output is from that of the reference."""
        return self._deviations[output]

    def has_new_nonfinite(self, output: str) -> bool:
        """Whether a saved output has NaN or infinities where that of the reference has other values."""
        return bool(self._deviations[output].error.nonfinite_mismatches)
