"""Where feeds come from: files, one reader a module in :mod:`qdqtool.pipeline.data.readers`, or seeded noise.

Every sample of a file is checked against the model's inputs before anything runs.
"""

from qdqtool.pipeline.data.digest import data_digest, sample_digest
from qdqtool.pipeline.data.feeds import DataDescription, Feeds, load_feeds
from qdqtool.pipeline.data.noise import random_feeds
from qdqtool.pipeline.data.sample import Sample
from qdqtool.pipeline.data.signature import InputSpec, input_specs, with_shapes

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
    "with_shapes",
]
