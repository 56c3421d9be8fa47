"""Folders of images: what is accepted, and what data of arrays and other commands say of the options."""

import pytest
from support.data_files import X, array, save_npz
from support.pictures import image_spec, picture, save_picture

from qdqtool.errors import UsageError
from qdqtool.samples.feeds import load_feeds
from qdqtool.samples.media_options import ImageOptions
from qdqtool.samples.options import ReadOptions
from qdqtool.samples.readers import image_folder

UNIT = ReadOptions(images=ImageOptions(preset="unit"))


def test_a_folder_of_arrays_beside_a_picture_is_one_of_arrays(tmp_path):
    save_picture(tmp_path / "d" / "a.png", picture(4, 4))
    assert image_folder.accepts(tmp_path / "d")
    assert image_folder.accepts(tmp_path / "d" / "a.png")
    save_npz(tmp_path / "d" / "x.npz", x=array(2))
    assert not image_folder.accepts(tmp_path / "d")
    assert len(load_feeds(tmp_path / "d", X)) == 2


def test_one_file_is_one_sample(tmp_path):
    path = save_picture(tmp_path / "a.png", picture(4, 4))
    assert len(load_feeds(path, image_spec(1, 3, 4, 4), options=UNIT)) == 1


def test_options_of_images_are_refused_for_arrays(tmp_path):
    with pytest.raises(UsageError, match="holds arrays, which has no use for the options of images"):
        load_feeds(save_npz(tmp_path / "d.npz", x=array(2)), X, options=UNIT)


def test_where_no_options_are_taken_images_are_refused(tmp_path):
    path = save_picture(tmp_path / "a.png", picture(4, 4))
    with pytest.raises(UsageError, match="options of preprocessing are not taken here"):
        load_feeds(path, image_spec(1, 3, 4, 4))


def test_a_folder_without_an_image_says_what_is_looked_for(tmp_path):
    (tmp_path / "Thumbs.db").touch()
    with pytest.raises(UsageError, match=r"holds nothing that is read as data; legal: folder of images \(\.jpg, "):
        load_feeds(tmp_path, image_spec(1, 3, 4, 4), options=UNIT)
