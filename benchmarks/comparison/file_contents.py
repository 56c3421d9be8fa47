"""Contents of files of many kinds, made up from a seed: what a file-type classifier is calibrated on."""

import base64
import bz2
import gzip
import io
import json
import lzma
import struct
import tarfile
import wave
import zipfile
import zlib
from collections.abc import Callable, Sequence
from pathlib import PurePosixPath

import numpy as np

EDGE = 512
"""Bytes that the classifier sees of each end of a file."""
PADDING = 256
WORDS = ("value", "total", "name", "index", "window", "river", "light", "order", "paper", "result", "green", "small")


def ends(content: bytes) -> list[int]:
    """What the classifier sees: the first and the last bytes without white space around, filled up with 256."""
    first, last = list(content.lstrip()[:EDGE]), list(content.rstrip()[-EDGE:])
    return first + [PADDING] * (2 * EDGE - len(first) - len(last)) + last


def contents(count: int, seed: int) -> list[bytes]:
    """So many files, each kind in turn, no two alike."""
    random = np.random.default_rng(seed)
    return [_KINDS[index % len(_KINDS)](random) for index in range(count)]


def _names(random: np.random.Generator, count: int) -> Sequence[str]:
    return [str(word) for word in random.choice(WORDS, count)]


def _prose(random: np.random.Generator) -> bytes:
    lines = [" ".join(_names(random, 12)).capitalize() + "." for _ in range(int(random.integers(10, 60)))]
    return "\n".join(lines).encode()


def _json(random: np.random.Generator) -> bytes:
    rows = [
        {name: float(random.normal()) for name in _names(random, 4)} | {"id": index}
        for index in range(int(random.integers(5, 40)))
    ]
    return json.dumps({"rows": rows}, indent=2).encode()


def _csv(random: np.random.Generator) -> bytes:
    rows = [f"{index},{random.normal():.4f},{_names(random, 1)[0]}" for index in range(int(random.integers(20, 90)))]
    return "\n".join(["id,amount,name", *rows]).encode()


def _html(random: np.random.Generator) -> bytes:
    body = "".join(f'<p class="{name}">{" ".join(_names(random, 9))}</p>\n' for name in _names(random, 20))
    head = f"<head><title>{_names(random, 1)[0]}</title></head>"
    return f"<!DOCTYPE html>\n<html>{head}\n<body>\n{body}</body></html>".encode()


def _xml(random: np.random.Generator) -> bytes:
    items = "".join(f'  <item id="{index}">{name}</item>\n' for index, name in enumerate(_names(random, 40)))
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<items>\n{items}</items>\n'.encode()


def _python(random: np.random.Generator) -> bytes:
    parts = [
        f"def {name}_{index}(self, {other}):\n    if {other} is None:\n        raise ValueError('{name}')\n"
        f"    return self.{name} + {random.integers(1000)}\n\n"
        for index, (name, other) in enumerate(zip(_names(random, 12), _names(random, 12), strict=True))
    ]
    return ("import os\nimport sys\n\n\n" + "\n".join(parts)).encode()


def _c(random: np.random.Generator) -> bytes:
    parts = [
        f"static int {name}_{index}(const char *{other}, size_t n)\n{{\n\tfor (size_t i = 0; i < n; i++)\n"
        f"\t\t{name}[i] = {random.integers(1000)};\n\treturn 0;\n}}\n\n"
        for index, (name, other) in enumerate(zip(_names(random, 12), _names(random, 12), strict=True))
    ]
    return ("#include <stdio.h>\n#include <string.h>\n\n" + "".join(parts)).encode()


def _shell(random: np.random.Generator) -> bytes:
    lines = [f'if [ -z "${name.upper()}" ]; then\n  echo "{name}" >&2\n  exit 1\nfi' for name in _names(random, 20)]
    return ("#!/bin/bash\nset -euo pipefail\n\n" + "\n".join(lines)).encode()


def _sql(random: np.random.Generator) -> bytes:
    rows = [
        f"INSERT INTO {_names(random, 1)[0]} VALUES ({index}, '{name}');"
        for index, name in enumerate(_names(random, 30))
    ]
    return ("CREATE TABLE items (id INTEGER PRIMARY KEY, name TEXT NOT NULL);\n" + "\n".join(rows)).encode()


def _markdown(random: np.random.Generator) -> bytes:
    parts = [
        f"## {name}\n\n- **{' '.join(_names(random, 3))}**\n- [link](https://example.org/{name})\n"
        for name in _names(random, 12)
    ]
    return ("# Title\n\n" + "\n".join(parts)).encode()


def _settings(random: np.random.Generator) -> bytes:
    return "".join(
        f"[{name}]\n{name}={random.integers(100)}\npath=/usr/{name}\n\n" for name in _names(random, 25)
    ).encode()


def _noise(random: np.random.Generator) -> bytes:
    return random.bytes(int(random.integers(1200, 5000)))


def _compressed(pack: Callable[[bytes], bytes]) -> Callable[[np.random.Generator], bytes]:
    return lambda random: pack(_noise(random))


def _zip(random: np.random.Generator) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in _names(random, 4):
            archive.writestr(zipfile.ZipInfo(f"{name}{random.integers(99999)}.txt"), _prose(random))
    return stream.getvalue()


def _tar(random: np.random.Generator) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for name in _names(random, 3):
            content = _prose(random)
            entry = tarfile.TarInfo(str(PurePosixPath(name) / "text.txt"))
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return stream.getvalue()


def _png(random: np.random.Generator) -> bytes:
    side = int(random.integers(24, 48))
    rows = b"".join(b"\0" + random.bytes(3 * side) for _ in range(side))
    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    packed = (
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(packed)


def _wav(random: np.random.Generator) -> bytes:
    stream = io.BytesIO()
    with wave.open(stream, "wb") as sound:
        sound.setparams((1, 2, 16000, 0, "NONE", ""))
        sound.writeframes((3000 * random.standard_normal(2000)).astype("<i2").tobytes())
    return stream.getvalue()


def _npy(random: np.random.Generator) -> bytes:
    stream = io.BytesIO()
    np.save(stream, random.standard_normal((20, int(random.integers(10, 40)))))
    return stream.getvalue()


_KINDS: tuple[Callable[[np.random.Generator], bytes], ...] = (
    *(_prose, _json, _csv, _html, _xml, _python, _c, _shell, _sql, _markdown, _settings, _noise, _zip, _tar, _png),
    *(_wav, _npy, _compressed(bz2.compress), _compressed(lzma.compress), _compressed(base64.b64encode)),
    _compressed(lambda content: gzip.compress(content, mtime=0)),
)
