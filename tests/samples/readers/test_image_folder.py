"""Folders of images and of sound, and text files: what is accepted, and what is said of options for other kinds."""

import pytest
from support.data_files import X, array, save_npz
from support.pictures import image_spec, picture, save_picture
from support.sounds import noise, save_sound, sound_spec
from support.texts import text_spec

from qdqtool.errors import UsageError
from qdqtool.samples.feeds import load_feeds
from qdqtool.samples.media_options import ImageOptions, SoundOptions
from qdqtool.samples.options import ReadOptions
from qdqtool.samples.readers import image_folder, sound_folder, text_file

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
    with pytest.raises(UsageError, match="holds arrays: the options of images cannot be used"):
        load_feeds(save_npz(tmp_path / "d.npz", x=array(2)), X, options=UNIT)


def test_where_no_options_are_taken_images_are_refused(tmp_path):
    path = save_picture(tmp_path / "a.png", picture(4, 4))
    with pytest.raises(UsageError, match="because it has no options of preprocessing"):
        load_feeds(path, image_spec(1, 3, 4, 4))


def test_a_folder_without_an_image_says_what_is_looked_for(tmp_path):
    (tmp_path / "Thumbs.db").touch()
    with pytest.raises(UsageError, match=r"holds no data of a known kind; legal: folder of images \(\.jpg, "):
        load_feeds(tmp_path, image_spec(1, 3, 4, 4), options=UNIT)


RATE = ReadOptions(sound=SoundOptions(rate=16000))


def test_a_folder_with_images_is_one_of_images(tmp_path):
    save_sound(tmp_path / "d/deep/a.wav", noise(4))
    assert sound_folder.accepts(tmp_path / "d")
    assert sound_folder.accepts(tmp_path / "d/deep/a.wav")
    save_picture(tmp_path / "d/a.png", picture(4, 4))
    assert not sound_folder.accepts(tmp_path / "d")


def test_options_of_images_have_no_use_for_sound(tmp_path):
    save_sound(tmp_path / "a.wav", noise(4))
    options = ReadOptions(sound=SoundOptions(rate=16000), preview=tmp_path / "p.png")
    with pytest.raises(UsageError, match=r"a\.wav holds sound: --preview cannot be used$"):
        load_feeds(tmp_path / "a.wav", sound_spec(4), options=options)
    (tmp_path / "b.npz").touch()
    with pytest.raises(UsageError, match="holds arrays: the options of sound cannot be used"):
        load_feeds(tmp_path / "b.npz", sound_spec(4), options=RATE)


def test_silence_alone_is_refused_like_any_constant_data(tmp_path):
    save_sound(tmp_path / "a.wav", noise(20) * 0)
    with pytest.raises(UsageError, match="2 of 2 samples hold a single value"):
        load_feeds(tmp_path / "a.wav", sound_spec(10), options=RATE, allow_constant=False)


def test_a_folder_of_that_name_is_no_text_file(tmp_path):
    (tmp_path / "d.txt").mkdir()
    (tmp_path / "t.txt").write_text("a\n")
    assert not text_file.accepts(tmp_path / "d.txt")
    assert text_file.accepts(tmp_path / "t.txt")


def test_text_needs_a_tokenizer_and_no_rate(tmp_path):
    path = tmp_path / "t.txt"
    path.write_text("a\n")
    with pytest.raises(UsageError, match="holds text, but its tokenizer is not known"):
        load_feeds(path, text_spec("input_ids"), options=ReadOptions())
    with pytest.raises(UsageError, match="holds text: the options of sound cannot be used"):
        load_feeds(path, text_spec("input_ids"), options=ReadOptions(sound=SoundOptions(rate=1)))
    with pytest.raises(UsageError, match="because it has no options of preprocessing"):
        load_feeds(path, text_spec("input_ids"))


def test_recorded_preprocessing_fills_what_is_not_requested(tmp_path):
    path, spec = save_picture(tmp_path / "a.png", picture(4, 4)), image_spec(1, 3, 4, 4)
    asked = ReadOptions(images=ImageOptions(preset="imagenet"))
    how = load_feeds(path, spec, options=asked).description.preprocessing
    assert load_feeds(path, spec, options=ReadOptions(recorded=how)).description.preprocessing == how
    other = ReadOptions(images=ImageOptions(pixel_range="0..255"), recorded=how)
    assert load_feeds(path, spec, options=other).description.preprocessing.pixel_range == "0..255"
    preset = ReadOptions(images=ImageOptions(preset="unit"), recorded=how)
    assert (
        load_feeds(path, spec, options=preset).description.preprocessing
        == load_feeds(path, spec, options=UNIT).description.preprocessing
    )
    assert len(load_feeds(save_npz(tmp_path / "d.npz", x=array(2)), X, options=ReadOptions(recorded=how))) == 2


def test_recorded_rate_and_hop_of_sound_hold(tmp_path):
    path, spec = save_sound(tmp_path / "a.wav", noise(64)), sound_spec(1, 16)
    asked = ReadOptions(sound=SoundOptions(rate=8000, hop=8))
    how = load_feeds(path, spec, options=asked).description.preprocessing
    assert load_feeds(path, spec, options=ReadOptions(recorded=how)).description.preprocessing == how
