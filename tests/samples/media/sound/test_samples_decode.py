"""Sound files are decoded to the values that were written, at the rate of the network, or refused with one message."""

import wave

import numpy as np
import pytest
import soundfile
from support.sounds import noise, save_sound

from qdqtool.errors import UsageError
from qdqtool.samples.media.sound import samples
from qdqtool.samples.media.sound.samples import pieces


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
