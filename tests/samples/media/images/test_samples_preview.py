"""The contact sheet: the pixels that the network gets, at their places, whatever normalization and layout there are."""

import numpy as np
import pytest
from PIL import Image
from support.pictures import image_spec, picture, save_picture

from qdqtool.errors import OutputError, UsageError
from qdqtool.samples.feeds import load_feeds
from qdqtool.samples.media.images.samples import LINE, MARGIN, SIDE
from qdqtool.samples.media_options import ImageOptions
from qdqtool.samples.options import ReadOptions

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
