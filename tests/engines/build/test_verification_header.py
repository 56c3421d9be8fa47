"""The header of an engine: what real engines hold, and files that are none."""

import struct

import pytest
from support.engine_models import conv, save

from qdqtool.engines.build.options import BuildOptions
from qdqtool.engines.build.verification import EngineHeader, read_header
from qdqtool.jobs.build import build_engine

# The first 64 bytes of engines of one float model, as these releases built it.
KEPT = {
    "1.4.0.76": (
        (
            "76747274 00000000 02000000 00000000 bc0d0d00 00000000 0104004c 76747274"
            "19000000 00000000 00000000 00000000 dc320000 00000000 80e60200 00000000"
        ),
        EngineHeader(bytes=855484, version="1.4.0.76", targets=("7.5", "8.9", "12.0")),
    ),
    "1.6.1.120": (
        (
            "76747274 00000000 02000000 00000000 04250d00 00000000 01060178 76747274"
            "04000000 00000000 00000000 00000000 f0320000 00000000 c0dc0200 00000000"
        ),
        EngineHeader(bytes=861444, version="1.6.1.120", targets=("8.6",)),
    ),
    "1.7.1.116": (
        (
            "76747274 00000000 02000000 00000000 2c3a2100 00000000 01070174 76747274"
            "7e000000 00000000 00000000 00000000 00000000 00000000 c4d70000 00000000"
        ),
        EngineHeader(bytes=2177580, version="1.7.1.116", targets=("8.0", "8.6", "8.9", "12.0", "12.1", "bit 6")),
    ),
}


@pytest.mark.parametrize("release", KEPT)
def test_headers_of_three_releases(tmp_path, release):
    text, expected = KEPT[release]
    (tmp_path / "e").write_bytes(bytes.fromhex(text))
    assert read_header(tmp_path / "e") == expected


@pytest.mark.builder
@pytest.mark.parametrize("targets", [("7.5",), ("8.0",), ("8.6",), ("12.1",), ("8.9", "12.0"), ("7.5", "8.0", "12.0")])
def test_the_header_of_an_engine_that_was_just_built(tmp_path, targets):
    pytest.importorskip("tensorrt_rtx")
    options = BuildOptions(compute_capabilities=targets, skip_validate=True, timeout=120)
    report = build_engine(save(conv(), tmp_path), tmp_path / "e", backend="tensorrt-rtx", options=options)
    assert read_header(tmp_path / "e") == EngineHeader(bytes=report.bytes, version=report.version, targets=targets)


GOOD = bytes.fromhex(KEPT["1.6.1.120"][0])


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"vtrt",
        GOOD[:35],
        b"ptrt" + GOOD[4:],
        GOOD[:28] + b"vtrx" + GOOD[32:],
        GOOD[:8] + struct.pack("<I", 3) + GOOD[12:],
    ],
)
def test_what_is_no_header_that_we_know(tmp_path, data):
    (tmp_path / "e").write_bytes(data)
    assert read_header(tmp_path / "e") is None
