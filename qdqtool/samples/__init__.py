"""Input data for models: from files, with one reader in each module of :mod:`qdqtool.samples.readers`, or seeded noise.

Every sample of a file is checked against the model's inputs before anything runs.
"""

from qdqtool.samples.feeds import DataDescription, Feeds, load_feeds
from qdqtool.samples.noise import random_feeds
from qdqtool.samples.sample import Sample, data_digest, sample_digest
from qdqtool.samples.signature import InputSpec, input_specs, stored_specs, with_shapes

__all__ = [
    "DataDescription",
    "Feeds",
    "InputSpec",
    "Sample",
    "data_digest",
    "input_specs",
    "load_feeds",
    "random_feeds",
    "sample_digest",
    "stored_specs",
    "with_shapes",
]
