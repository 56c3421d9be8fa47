"""Samples of images: one batch at a time, the same each time, with labels beside them."""

import numpy as np
import pytest
from support.pictures import image_spec, picture, save_picture

from qdqtool.errors import UsageError
from qdqtool.samples.feeds import load_feeds
from qdqtool.samples.media_options import ImageOptions
from qdqtool.samples.options import ReadOptions

UNIT = ReadOptions(images=ImageOptions(preset="unit"))


def folder(tmp_path, count):
    for number in range(count):
        save_picture(tmp_path / "d" / f"c{number % 2}" / f"{number}.png", picture(4, 4, number))
    return tmp_path / "d"


def values(number):
    return np.moveaxis(picture(4, 4, number), -1, 0).astype(np.float32) / np.float32(255)


def test_images_come_one_by_one_in_order_again_and_again(tmp_path):
    feeds = load_feeds(folder(tmp_path, 12), image_spec("batch", 3, 4, 4), options=UNIT)
    order = [0, 2, 4, 6, 8, 10, 1, 3, 5, 7, 9, 11]
    for _ in range(2):
        assert np.array_equal([sample["x"][0] for sample in feeds], [values(number) for number in order])
    assert len(feeds) == 12
    assert feeds.description.preprocessing.size == (4, 4)
    assert [sample.labels.tolist() for sample in feeds.with_labels()] == [[0]] * 6 + [[1]] * 6


def test_a_fixed_batch_is_filled_up_with_the_last_image(tmp_path):
    feeds = load_feeds(folder(tmp_path, 3), image_spec(2, 3, 4, 4), options=UNIT)
    first, last = feeds
    assert np.array_equal(first["x"], [values(0), values(2)])
    assert np.array_equal(last["x"], [values(1), values(1)])
    assert (first.filler, last.filler, last.batch) == (0, 1, 2)
    assert [sample.labels.tolist() for sample in feeds.with_labels()] == [[0, 0], [1]]


def test_an_input_without_a_batch(tmp_path):
    (sample,) = load_feeds(folder(tmp_path, 1), image_spec(3, 4, 4), options=UNIT)
    assert np.array_equal(sample["x"], values(0))


def test_float16_inputs_get_the_rounded_values(tmp_path):
    (sample,) = load_feeds(folder(tmp_path, 1), image_spec(1, 3, 4, 4, dtype=np.dtype(np.float16)), options=UNIT)
    assert sample["x"].dtype == np.float16
    assert np.array_equal(sample["x"][0], values(0).astype(np.float16))


def test_integer_inputs_get_the_pixels(tmp_path):
    raw = ReadOptions(images=ImageOptions(preset="unit", pixel_range="0..255"))
    spec = image_spec(1, 4, 4, 3, dtype=np.dtype(np.uint8))
    (sample,) = load_feeds(folder(tmp_path, 1), spec, options=raw)
    assert np.array_equal(sample["x"][0], picture(4, 4, 0))
    with pytest.raises(UsageError, match="input 'x' has type uint8"):
        load_feeds(tmp_path / "d", spec, options=UNIT)


def test_files_are_opened_one_at_a_time_when_their_sample_is_read(tmp_path):
    root = folder(tmp_path, 4)
    feeds = load_feeds(root, image_spec(1, 3, 4, 4), options=UNIT)
    (root / "c1" / "3.png").write_bytes(b"")
    given = iter(feeds)
    assert len([next(given) for _ in range(3)]) == 3
    with pytest.raises(UsageError, match=r"3\.png is empty"):
        next(given)


def test_only_the_first_images_are_read_where_few_are_used(tmp_path):
    root = folder(tmp_path, 4)
    (root / "c1" / "3.png").write_bytes(b"")
    assert len(load_feeds(root, image_spec(1, 3, 4, 4), 3, options=UNIT)) == 3


def test_samples_have_the_files_of_their_images_also_as_halves(tmp_path):
    halves = image_spec(2, 3, 4, 4, dtype=np.dtype(np.float16))
    feeds = load_feeds(folder(tmp_path, 3), halves, options=UNIT)
    assert [sample.files for sample in feeds] == [("c0/0.png", "c0/2.png"), ("c1/1.png",)]
    (alone,) = load_feeds(tmp_path / "d/c1/1.png", image_spec(1, 3, 4, 4), options=UNIT)
    assert alone.files == ("1.png",)
