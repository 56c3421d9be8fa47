"""Sound files are decoded or refused, and cut into windows with the shape, range, batch and labels of the input."""

import wave

import numpy as np
import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st
from support.sounds import noise, save_sound, sound_spec

from qdqtool.errors import UsageError
from qdqtool.samples.feeds import load_feeds
from qdqtool.samples.media.sound import samples
from qdqtool.samples.media.sound.samples import pieces, windows
from qdqtool.samples.media_options import SoundOptions
from qdqtool.samples.options import ReadOptions


def options(**given):
    return ReadOptions(sound=SoundOptions(**{"rate": 16000} | given))


@given(st.lists(st.integers(0, 9), max_size=8), st.integers(1, 7), st.integers(1, 12))
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


def read(path, rate=16000, channels=1):
    return np.concatenate(list(pieces(path, rate, channels)))


@pytest.mark.parametrize("subtype", ["PCM_16", "PCM_24", "PCM_32", "FLOAT", "DOUBLE"])
@pytest.mark.parametrize("channels", [1, 2])
def test_every_width_gives_the_values_that_were_written(subtype, channels, tmp_path):
    values = noise(1000, channels)
    path = save_sound(tmp_path / "a.wav", values, subtype=subtype)
    assert np.array_equal(read(path, channels=channels), values)


def test_the_codes_of_a_wav_file_are_divided_by_32768(tmp_path):
    """The oracle is Python's own module for WAV files."""
    codes = np.array([-32768, -1, 0, 1, 32767], np.int16)
    with wave.open(str(tmp_path / "a.wav"), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(16000)
        file.writeframes(codes.tobytes())
    assert read(tmp_path / "a.wav")[:, 0].tolist() == [code / 32768 for code in codes.tolist()]


def test_flac_keeps_every_value(tmp_path):
    values = noise(500)
    assert np.array_equal(read(save_sound(tmp_path / "a.flac", values)), values)


def test_one_channel_is_the_mean_of_all(tmp_path):
    values = noise(500, 2)
    found = read(save_sound(tmp_path / "a.wav", values))
    assert np.array_equal(found[:, 0], (values[:, 0] + values[:, 1]) / 2)


@pytest.mark.parametrize("rate", [48000, 8000, 44100])
def test_another_rate_gives_the_same_tone(rate, tmp_path, monkeypatch):
    """A tone of 440 Hz is the same function of time at every rate; the ends ring."""
    monkeypatch.setattr(samples, "FRAMES", 1000)
    time = np.arange(rate) / rate
    path = save_sound(tmp_path / "a.wav", np.sin(2 * np.pi * 440 * time)[:, None], rate, "FLOAT")
    found = read(path)[:, 0]
    assert abs(len(found) - 16000) <= 1
    expected = np.sin(2 * np.pi * 440 * np.arange(len(found)) / 16000)
    assert np.abs(found - expected)[500:-500].max() < 1e-4


def test_a_long_file_comes_in_pieces(tmp_path, monkeypatch):
    monkeypatch.setattr(samples, "FRAMES", 300)
    values = noise(1000)
    parts = list(pieces(save_sound(tmp_path / "a.wav", values), 16000, 1))
    assert [len(part) for part in parts] == [300, 300, 300, 100]
    assert np.array_equal(np.concatenate(parts), values)


def whole(tmp_path, name="a.wav"):
    return save_sound(tmp_path / name, noise(1000)).read_bytes()


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda data: b"", "is empty"),
        (lambda data: data[:1000], r"is cut off: it has 956 of 2000 bytes"),
        (lambda data: data[:30], "is damaged or no sound of a known format"),
        (lambda data: b"<html>not found</html>" * 9, "is damaged or no sound of a known format: Format not recognised"),
        (lambda data: data[:44], "is cut off|holds no sound"),
    ],
)
def test_damaged_files_are_refused(damage, says, tmp_path):
    path = tmp_path / "b.wav"
    path.write_bytes(damage(whole(tmp_path)))
    with pytest.raises(UsageError, match=says) as caught:
        read(path)
    assert str(path) in str(caught.value)


def test_a_flac_file_that_is_cut_off_is_refused(tmp_path):
    path = tmp_path / "b.flac"
    path.write_bytes(whole(tmp_path, "a.flac")[:1500])
    with pytest.raises(UsageError, match="damaged"):
        read(path)


@pytest.mark.parametrize("size", [b"\xff\xff\xff\xff", b"\x00\xff\xff\x7f"])
def test_a_file_of_a_program_that_could_not_write_the_size_is_whole(size, tmp_path):
    data = bytearray(whole(tmp_path))
    data[40:44] = size
    (tmp_path / "b.wav").write_bytes(data)
    assert np.array_equal(read(tmp_path / "b.wav"), noise(1000))


def test_another_format_under_the_suffix_is_refused(tmp_path):
    soundfile.write(tmp_path / "a.mp3", noise(2000), 16000)
    (tmp_path / "a.mp3").rename(tmp_path / "a.wav")
    with pytest.raises(UsageError, match=r"a\.wav is MP3, and not one of WAV, "):
        read(tmp_path / "a.wav")


def test_another_number_of_channels_is_refused(tmp_path):
    with pytest.raises(UsageError, match="has 1 channel, and the model takes 2"):
        read(save_sound(tmp_path / "a.wav", noise(10)), channels=2)


def test_a_file_that_is_gone(tmp_path):
    with pytest.raises(UsageError, match=r"none\.wav"):
        read(tmp_path / "none.wav")
