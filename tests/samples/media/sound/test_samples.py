"""Windows of sound files: where they begin, what becomes of the rest, and their shape, range, batch and labels."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.sounds import noise, save_sound, sound_spec

from qdqtool.samples.feeds import load_feeds
from qdqtool.samples.media.sound.samples import windows
from qdqtool.samples.media_options import SoundOptions
from qdqtool.samples.options import ReadOptions


def options(**given):
    return ReadOptions(sound=SoundOptions(**{"rate": 16000} | given))


@given(
    st.lists(st.integers(0, 9), max_size=8),
    st.integers(1, 7),
    st.integers(1, 12),
)
def test_windows_begin_at_every_hop_wherever_the_pieces_end(sizes, length, hop):
    sound = np.arange(1, sum(sizes) + 1, dtype=np.float32)[:, None]
    parts = np.split(sound, np.cumsum(sizes)[:-1]) if sizes else []
    found = [window[:, 0].tolist() for window in windows(parts, length, hop)]
    starts = range(0, len(sound) - length + 1, hop)
    expected = [sound[start : start + length, 0].tolist() for start in starts]
    if not expected and len(sound):
        expected = [[*sound[:, 0].tolist(), *[0.0] * (length - len(sound))]]
    assert found == expected


def test_files_come_in_order_and_their_ends_are_left_out(tmp_path):
    first, second = noise(25, seed=1), noise(10, seed=2)
    save_sound(tmp_path / "d/2.wav", first)
    save_sound(tmp_path / "d/10.wav", second)
    feeds = load_feeds(tmp_path / "d", sound_spec(1, 10), options=options())
    for _ in range(2):
        assert np.array_equal([sample["x"][0] for sample in feeds], [first[:10, 0], first[10:20, 0], second[:, 0]])
    assert feeds.description.preprocessing.rate == 16000
    overlapping = load_feeds(tmp_path / "d", sound_spec(1, 10), options=options(hop=5))
    assert len(overlapping) == 5


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((10,), lambda x: x.mean(1)),
        ((1, 10), lambda x: x.mean(1)[None]),
        ((1, 2, 10), lambda x: x.T[None]),
        ((1, 10, 2), lambda x: x[None]),
    ],
)
def test_the_input_gets_its_shape(shape, expected, tmp_path):
    values = noise(10, 2)
    save_sound(tmp_path / "a.wav", values)
    (sample,) = load_feeds(tmp_path / "a.wav", sound_spec(*shape), options=options())
    assert np.array_equal(sample["x"], expected(values).astype(np.float32))


def test_the_range_of_int16_gives_its_codes(tmp_path):
    values = noise(10)
    save_sound(tmp_path / "a.wav", values)
    (sample,) = load_feeds(tmp_path / "a.wav", sound_spec(10), options=options(sample_range="int16"))
    assert np.array_equal(sample["x"], (values[:, 0] * 32768).round())
    (half,) = load_feeds(tmp_path / "a.wav", sound_spec(10, dtype=np.dtype(np.float16)), options=options())
    assert half["x"].dtype == np.float16


def test_windows_of_a_file_share_its_label_and_fill_batches(tmp_path):
    for name, frames in (("cat/1.wav", 20), ("dog/1.wav", 10)):
        save_sound(tmp_path / "d" / name, noise(frames, seed=frames))
    first, last = load_feeds(tmp_path / "d", sound_spec(2, 10), options=options()).with_labels()
    assert (first.labels.tolist(), last.labels.tolist(), last.filler) == ([0, 0], [1], 1)
    (tmp_path / "l.csv").write_text("cat/1.wav,7\ndog/1.wav,8\n")
    with_file = ReadOptions(sound=SoundOptions(rate=16000), labels=tmp_path / "l.csv")
    first, last = load_feeds(tmp_path / "d", sound_spec(2, 10), options=with_file).with_labels()
    assert (first.labels.tolist(), last.labels.tolist()) == ([7, 7], [8])


def test_windows_have_the_file_that_they_were_cut_from(tmp_path):
    save_sound(tmp_path / "d/a.wav", noise(25, seed=1))
    save_sound(tmp_path / "d/b.wav", noise(10, seed=2))
    feeds = load_feeds(tmp_path / "d", sound_spec(1, 10), options=options())
    assert [sample.files for sample in feeds] == [("a.wav",), ("a.wav",), ("b.wav",)]
