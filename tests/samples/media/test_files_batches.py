"""Rows become the batches of a run: full ones, the last one filled up, none without rows."""

import numpy as np

from qdqtool.samples.media.files import BatchRow, batched


def rows(count: int, labels: bool = False):
    return [
        BatchRow({"x": np.full(2, at), "y": np.array(at)}, 10 + at if labels else None, f"{at // 2}.wav")
        for at in range(count)
    ]


def test_the_last_batch_repeats_its_last_row():
    first, last = batched(rows(3, labels=True), 2)
    assert first["x"].tolist() == [[0, 0], [1, 1]]
    assert first["y"].tolist() == [0, 1]
    assert last["x"].tolist() == [[2, 2], [2, 2]]
    assert (first.batch, first.filler, last.filler) == (2, 0, 1)
    assert (first.labels.tolist(), last.labels.tolist()) == ([10, 11], [12])


def test_a_batch_has_the_files_of_its_rows_each_once():
    assert [sample.files for sample in batched(rows(5), 4)] == [("0.wav", "1.wav"), ("2.wav",)]
    assert [sample.files for sample in batched([BatchRow({"x": np.ones(2)})], 4)] == [()]


def test_an_input_without_a_batch_takes_a_row_a_run():
    found = list(batched(rows(2), None))
    assert [sample["x"].tolist() for sample in found] == [[0, 0], [1, 1]]
    assert [(sample.batch, sample.filler, sample.labels) for sample in found] == [(1, 0, None)] * 2
    assert list(batched([], 4)) == []
