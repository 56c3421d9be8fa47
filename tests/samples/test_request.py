"""What a caller may ask for: a path, data of a file, or random data, each checked before anything runs."""

import numpy as np
import pytest
from support.small import matmul_model

from qdqtool.errors import UsageError
from qdqtool.models.graph.model import Model
from qdqtool.samples.request import DataRequest, FileData, RandomData, open_feeds

MODEL = Model(matmul_model())  # x[N, 8]


@pytest.fixture
def path(tmp_path):
    np.savez(tmp_path / "d.npz", x=np.arange(40, dtype=np.float32).reshape(5, 8))
    return tmp_path / "d.npz"


def test_a_path_and_data_of_that_file_are_the_same(path):
    opened = [open_feeds(MODEL, request) for request in (path, str(path), FileData(path=path))]
    assert [[sample["x"].tolist() for sample in feeds] for feeds in opened][1:] == [
        [sample["x"].tolist() for sample in opened[0]]
    ] * 2
    assert {len(feeds) for feeds in opened} == {5}


@pytest.mark.parametrize("request_for", [lambda path: FileData(path=path, samples=3), lambda _: RandomData(samples=3)])
def test_each_is_called_once_with_every_sample_that_is_used(request_for, path):
    seen = []
    feeds = open_feeds(MODEL, request_for(path), each=lambda sample: seen.append(sample["x"].tolist()))
    assert len(seen) == len(feeds) == 3
    assert [sample["x"].tolist() for sample in feeds] == seen


def test_random_data_is_that_of_its_seed():
    first, again, other = (open_feeds(MODEL, RandomData(seed=seed)) for seed in (1, 1, 2))
    values = [[sample["x"].tolist() for sample in feeds] for feeds in (first, again, other)]
    assert values[0] == values[1] != values[2]
    assert first.description.seed == 1


@pytest.mark.parametrize("data", [RandomData(samples=0), RandomData(samples=-1)])
def test_no_samples_at_all_cannot_be_asked_for(data, path):
    for request in (data, FileData(path=path, samples=data.samples)):
        with pytest.raises(UsageError, match=f"samples is {data.samples}; it must be at least 1"):
            open_feeds(MODEL, request)


def test_a_request_without_options_is_for_random_data_of_the_first_seed():
    assert DataRequest() == DataRequest(path=None, seed=0, samples=None, input_shapes={})
