"""Folders of sound: what is accepted, and options of other kinds of files."""

import pytest
from support.pictures import picture, save_picture
from support.sounds import noise, save_sound, sound_spec

from qdqtool.errors import UsageError
from qdqtool.samples.feeds import load_feeds
from qdqtool.samples.media_options import SoundOptions
from qdqtool.samples.options import ReadOptions
from qdqtool.samples.readers import sound_folder

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
    with pytest.raises(UsageError, match=r"a\.wav holds sound, which has no use for --preview$"):
        load_feeds(tmp_path / "a.wav", sound_spec(4), options=options)
    (tmp_path / "b.npz").touch()
    with pytest.raises(UsageError, match="holds arrays, which has no use for the options of sound"):
        load_feeds(tmp_path / "b.npz", sound_spec(4), options=RATE)


def test_silence_alone_is_refused_like_any_constant_data(tmp_path):
    save_sound(tmp_path / "a.wav", noise(20) * 0)
    with pytest.raises(UsageError, match="2 of 2 samples hold a single value"):
        load_feeds(tmp_path / "a.wav", sound_spec(10), options=RATE, allow_constant=False)
