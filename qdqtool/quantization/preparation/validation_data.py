"""Data that measures the accuracy and chooses nothing, from a file of its own."""

from dataclasses import dataclass
from pathlib import Path

from qdqtool.models.graph.model import Model
from qdqtool.samples import Feeds, data_digest, sample_digest
from qdqtool.samples.measuring_data import SAME_DATA, MeasuringData
from qdqtool.samples.request import FileData, open_feeds


@dataclass(frozen=True, slots=True)
class ValidationData:
    """Validation data that was checked against the inputs of a model.

    Attributes:
        feeds: The samples.
        digest: Their digest, as a ranges file has it of calibration data.
    """

    feeds: Feeds
    digest: str

    def alone(self) -> MeasuringData:
        """Return the samples for a measurement where there is no calibration data that could be the same."""
        return MeasuringData(feeds=self.feeds, validation=self.feeds.description.source)

    def beside(self, calibration: str | None) -> MeasuringData:
        """Return the samples for a measurement, with a reason where they are the calibration data after all.

        Args:
            calibration: Digest of the calibration data; None where it is not known.
        """
        return MeasuringData(feeds=self.feeds, reason=SAME_DATA) if self.digest == calibration else self.alone()


def open_validation(model: Model, data: str | Path | FileData) -> ValidationData:
    """Open validation data and check every sample of it.

    Args:
        model: The float model, its input shapes fixed.
        data: The file, folder or script.

    Raises:
        UsageError: A sample does not fit.
    """
    digests: list[bytes] = []
    feeds = open_feeds(model, data, lambda sample: digests.append(sample_digest(sample)))
    return ValidationData(feeds, data_digest(digests))
