"""Samples of images: one batch at a time, the same each time, with labels, and shown on a contact sheet."""

import numpy as np
import pytest
from PIL import Image
from support.pictures import image_spec, picture, save_picture

from qdqtool.errors import OutputError, UsageError
from qdqtool.samples.feeds import load_feeds
from qdqtool.samples.media.images.samples import LINE, MARGIN, SIDE
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


STYLES = {
    "imagenet": ImageOptions(preset="imagenet", resize="stretch"),
    "opencv": ImageOptions(preset="opencv"),
    "tensorflow": ImageOptions(preset="tensorflow", layout="nhwc"),
}


def preview(tmp_path, options, shape, limit=None):
    request = ReadOptions(images=options, preview=tmp_path / "sheet.png")
    load_feeds(tmp_path / "d", image_spec(*shape), limit, options=request)
    return np.asarray(Image.open(tmp_path / "sheet.png"))


@pytest.mark.parametrize(
    ("style", "shape"), [("imagenet", (1, 3, 8, 8)), ("opencv", (1, 3, 8, 8)), ("tensorflow", (1, 8, 8, 3))]
)
def test_the_first_images_are_shown_enlarged_and_with_their_own_colors(style, shape, tmp_path):
    for number in range(6):
        save_picture(tmp_path / "d" / f"{number}.png", picture(8, 8, number))
    sheet = preview(tmp_path, STYLES[style], shape)
    factor, high = SIDE // 8, SIDE + 2 + 2 * LINE + MARGIN
    for number, (row, column) in {0: (0, 0), 3: (0, 3), 5: (1, 1)}.items():
        top, left = 3 * LINE + row * high + 1, MARGIN + column * (SIDE + MARGIN) + 1
        shown = sheet[top : top + SIDE : factor, left : left + SIDE : factor]
        assert np.array_equal(shown, picture(8, 8, number))


def test_a_grey_input_is_shown_grey(tmp_path):
    save_picture(tmp_path / "d" / "a.png", picture(8, 8, channels=1))
    sheet = preview(tmp_path, ImageOptions(preset="unit"), (1, 1, 8, 8))
    shown = sheet[3 * LINE + 1 : 3 * LINE + SIDE : 32, MARGIN + 1 : MARGIN + SIDE : 32]
    assert np.array_equal(shown, np.repeat(picture(8, 8, channels=1)[..., None], 3, axis=2))


def test_the_same_images_give_the_same_bytes_and_no_more_are_read_than_used(tmp_path):
    for number in range(3):
        save_picture(tmp_path / "d" / f"{number}.png", picture(300, 500, number))
    first = preview(tmp_path, STYLES["opencv"], (1, 3, 300, 500), limit=2).tobytes()
    (tmp_path / "d" / "2.png").write_bytes(b"")
    assert preview(tmp_path, STYLES["opencv"], (1, 3, 300, 500), limit=2).tobytes() == first


def test_names_may_have_any_letters(tmp_path):
    save_picture(tmp_path / "d" / "фото é.png", picture(8, 8))
    assert preview(tmp_path, STYLES["opencv"], (1, 3, 8, 8)).size


def test_an_image_is_never_overwritten_and_a_missing_folder_is_named(tmp_path):
    path = save_picture(tmp_path / "d" / "a.png", picture(8, 8))
    with pytest.raises(UsageError, match="is also an input"):
        load_feeds(tmp_path / "d", image_spec(1, 3, 8, 8), options=ReadOptions(images=STYLES["opencv"], preview=path))
    request = ReadOptions(images=STYLES["opencv"], preview=tmp_path / "none" / "p.png")
    with pytest.raises(OutputError, match="does not exist"):
        load_feeds(tmp_path / "d", image_spec(1, 3, 8, 8), options=request)
