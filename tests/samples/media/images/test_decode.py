"""Decoding: what files hold becomes the pixels that are meant, and every fault is one line with the file."""

import struct
import zlib

import numpy as np
import pytest
from PIL import Image
from support.pictures import picture, save_picture

from qdqtool.errors import CapabilityError, UsageError
from qdqtool.samples.media.images import decode as module
from qdqtool.samples.media.images.decode import decode


def rgb(path):
    return np.asarray(decode(path, grey=False))


def test_the_orientation_of_the_camera_is_applied(tmp_path):
    pixels = picture(4, 6)
    for orientation, expected in ((1, pixels), (3, pixels[::-1, ::-1]), (6, np.rot90(pixels, -1))):
        exif = Image.Exif()
        exif[0x0112] = orientation
        assert np.array_equal(rgb(save_picture(tmp_path / f"{orientation}.png", pixels, exif=exif)), expected)


def test_transparent_pixels_are_laid_over_white(tmp_path):
    pixels = np.zeros((2, 2, 4), np.uint8)
    pixels[..., 0] = 200
    pixels[..., 3] = [[0, 255], [51, 102]]
    found = rgb(save_picture(tmp_path / "a.png", pixels))
    share = pixels[..., 3:] / 255
    assert np.array_equal(found, np.rint(pixels[..., :3] * share + 255 * (1 - share)))


def test_a_palette_with_a_transparent_color_is_laid_over_white(tmp_path):
    image = Image.new("P", (2, 1))
    image.putpalette([10, 20, 30, 40, 50, 60])
    image.putpixel((1, 0), 1)
    image.save(tmp_path / "a.png", transparency=0)
    assert rgb(tmp_path / "a.png").tolist() == [[[255, 255, 255], [40, 50, 60]]]


def test_of_sixteen_bits_the_upper_eight_are_taken(tmp_path):
    wide = np.array([[0, 255, 256, 65535]], np.uint16)
    Image.fromarray(wide).save(tmp_path / "a.png")
    assert rgb(tmp_path / "a.png")[..., 0].tolist() == [[0, 0, 1, 255]]


def test_black_and_white_and_grey_become_three_equal_channels(tmp_path):
    grey = picture(3, 5, channels=1)
    found = rgb(save_picture(tmp_path / "grey.png", grey))
    assert all(np.array_equal(found[..., channel], grey) for channel in range(3))
    Image.fromarray(grey > 100).save(tmp_path / "bits.png")
    assert np.array_equal(rgb(tmp_path / "bits.png")[..., 0], np.where(grey > 100, 255, 0))


def test_color_becomes_grey_by_its_luma(tmp_path):
    pixels = picture(3, 5)
    found = np.asarray(decode(save_picture(tmp_path / "a.png", pixels), grey=True))
    assert np.abs(found - pixels @ np.array([0.299, 0.587, 0.114])).max() < 1


def test_cmyk_becomes_rgb(tmp_path):
    Image.new("CMYK", (8, 8), (0, 255, 255, 0)).save(tmp_path / "a.jpg")
    assert np.abs(rgb(tmp_path / "a.jpg").astype(int) - [255, 0, 0]).max() < 4


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "is empty"),
        (b"a text file", r"is no image of a known format \(JPEG"),
        (b"\x89PNG\r\n\x1a\n", r"is (no image|damaged)"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "is no image of a known format"),
    ],
)
def test_what_is_no_image_is_named(data: bytes, says: str, tmp_path):
    (tmp_path / "a.jpg").write_bytes(data)
    with pytest.raises(UsageError, match=rf"a\.jpg {says}"):
        decode(tmp_path / "a.jpg", grey=False)


@pytest.mark.parametrize("suffix", ["jpg", "png", "webp", "bmp", "gif", "tif", "ppm"])
def test_a_file_that_is_cut_off_anywhere_is_an_error_and_never_half_a_picture(suffix: str, tmp_path):
    path = save_picture(tmp_path / f"a.{suffix}", picture(16, 16))
    whole = path.read_bytes()
    for length in range(0, len(whole) * 3 // 4, max(1, len(whole) // 60)):
        path.write_bytes(whole[:length])
        with pytest.raises(UsageError, match=r"a\.\w+ (is|has)"):
            decode(path, grey=False)


@pytest.mark.parametrize("suffix", ["jpg", "png", "webp", "bmp", "gif", "tif", "ppm"])
def test_any_changed_byte_gives_pixels_or_a_usage_error(suffix: str, tmp_path):
    path = save_picture(tmp_path / f"a.{suffix}", picture(8, 8))
    whole = path.read_bytes()
    for place in range(0, len(whole), max(1, len(whole) // 300)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x55]) + whole[place + 1 :])
        try:
            assert rgb(path).shape[-1] == 3
        except UsageError:
            continue


def test_a_bomb_is_refused_before_it_unpacks(tmp_path):
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    for side, says in ((12_000, "has 12000x12000 pixels"), (60_000, "is too large")):
        header = struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)
        path = tmp_path / f"{side}.png"
        path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", b"") + chunk(b"IEND", b""))
        with pytest.raises(UsageError, match=says):
            decode(path, grey=False)


@pytest.mark.parametrize("suffix", ["gif", "webp", "png", "tif"])
def test_an_animation_is_refused(suffix: str, tmp_path):
    frames = [Image.fromarray(picture(8, 8, seed)) for seed in range(3)]
    frames[0].save(tmp_path / f"a.{suffix}", save_all=True, append_images=frames[1:])
    with pytest.raises(UsageError, match="has 3 frames; a sample is a single picture"):
        decode(tmp_path / f"a.{suffix}", grey=False)


def test_pixels_of_32_bits_are_refused(tmp_path):
    Image.fromarray(np.ones((4, 4), np.float32)).save(tmp_path / "a.tif")
    with pytest.raises(UsageError, match="pixels of 32 bits"):
        decode(tmp_path / "a.tif", grey=False)


def test_of_a_camera_s_pair_the_first_picture_is_taken(tmp_path):
    first, second = (Image.fromarray(np.full((16, 16, 3), value, np.uint8)) for value in (50, 200))
    first.save(tmp_path / "a.jpg", format="MPO", save_all=True, append_images=[second])
    assert np.abs(rgb(tmp_path / "a.jpg").astype(int) - 50).max() < 3


def test_without_pillow_there_is_one_line_with_the_command(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "PIL.Image", None)
    with pytest.raises(CapabilityError, match="Pillow, which is not installed") as caught:
        module.require_pillow()
    assert caught.value.hint == "`pip install pillow`"
