"""Deployment options: what they are spelled like, and what is refused before a builder is asked."""

import hashlib
import platform
import sys
from dataclasses import replace

import pytest

from qdqtool.engines.tensorrt.deployment import DeploymentOptions, is_dynamic, parse_pools
from qdqtool.errors import UsageError


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["workspace:1G"], {"workspace": 2**30}),
        (["workspace:16"], {"workspace": 16 * 2**20}),
        (["workspace:0.25M,tacticSharedMem:48K"], {"workspace": 2**18, "tacticSharedMem": 48 * 2**10}),
        (["WORKSPACE:7b", "tacticsharedmem:1.5k"], {"workspace": 7, "tacticSharedMem": 1536}),
        ([], {}),
    ],
)
def test_sizes_of_pools_are_read_as_trtexec_reads_them(words, expected):
    assert parse_pools(words) == expected


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("1G", "'1G' cannot be read"),
        ("workspace", "'workspace' cannot be read"),
        ("workspace:1T", "'workspace:1T' cannot be read"),
        ("workspace:-1", "'workspace:-1' cannot be read"),
        ("workspace:1G,", "'' cannot be read"),
        ("workspace:0", "gives 'workspace' 0 bytes"),
        ("workspace:0.1B", "gives 'workspace' 0 bytes"),
        ("workspace:1,WORKSPACE:2", "names 'workspace' twice"),
        ("workspac:1G", "'workspac', which is not a memory pool; did you mean 'workspace'"),
        ("dlaSRAM:1M", "'dlaSRAM', which is not a memory pool"),
    ],
)
def test_what_is_no_size_of_a_pool(word, message):
    with pytest.raises(UsageError, match=message):
        parse_pools([word])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"builder_optimization_level": -1}, "is -1; it must be 0 or more"),
        ({"exclude_lean_runtime": True}, "for version-compatible engines only"),
        ({"error_on_timing_cache_miss": True}, "needs a timing cache"),
        ({"mem_pool_size": {"tactic": 1}}, "not a memory pool"),
        ({"mem_pool_size": {"workspace": 0}}, "1 or more"),
        ({"serialize_plugins": True}, "stores the libraries of --plugins, and none is given"),
    ],
)
def test_options_that_make_no_sense(options, message):
    with pytest.raises(UsageError, match=message):
        DeploymentOptions(**options)


def test_what_is_given_is_told_in_one_order_and_without_folders(tmp_path):
    options = DeploymentOptions(
        weight_streaming=True,
        refit=True,
        builder_optimization_level=0,
        mem_pool_size={"workspace": 2, "tacticSharedMem": 1},
        timing_cache_file=tmp_path / "t.cache",
    )
    assert list(options.given().items()) == [
        ("builder_optimization_level", 0),
        ("mem_pool_size", {"tacticSharedMem": 1, "workspace": 2}),
        ("refit", True),
        ("timing_cache_file", "t.cache"),
        ("weight_streaming", True),
    ]
    assert options.flags() == {"--refit": "REFIT", "--weight-streaming": "WEIGHT_STREAMING"}
    assert DeploymentOptions().given() == DeploymentOptions().flags() == {}


def test_the_lean_runtime_is_excluded_after_the_flag_that_it_needs():
    options = DeploymentOptions(exclude_lean_runtime=True, version_compatible=True)
    assert list(options.flags().values()) == ["VERSION_COMPATIBLE", "EXCLUDE_LEAN_RUNTIME"]


def elf(machine: int, kind: int = 3, rest: bytes = b"") -> bytes:
    """The beginning of an ELF file, by default of a shared library."""
    return b"\x7fELF\x02\x01\x01".ljust(16, b"\0") + bytes([kind, 0, machine, 0]) + rest


HERE, OTHER = {"x86_64": (62, 183), "aarch64": (183, 62)}.get(platform.machine(), (0, 62))
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="ELF files are libraries of Linux")


@LINUX
@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot be read: No such file or directory"),
        (b"", "is not a shared library"),
        (b"import os", "is not a shared library"),
        (elf(HERE)[:19], "is not a shared library"),
        (elf(HERE, kind=2), "is not a shared library"),
        (elf(OTHER), r"is for \w+, and this machine is \w+"),
        (elf(243), "is for machine 243, and this machine is"),
    ],
)
def test_a_wrong_library_is_refused_before_anything_runs(tmp_path, content, message):
    library = tmp_path / "libswirl.so"
    if content is not None:
        library.write_bytes(content)
    with pytest.raises(UsageError, match=message) as caught:
        DeploymentOptions(plugins=(library,))
    assert caught.value.exit_code == 2


@LINUX
def test_libraries_are_told_by_name_and_digest_and_stored_if_tensorrt_can_load_them(tmp_path):
    names = b"\0getCreators\0"
    static, dynamic = tmp_path / "static.so", tmp_path / "dynamic.so"
    static.write_bytes(elf(HERE))
    dynamic.write_bytes(elf(HERE, rest=names))
    options = DeploymentOptions(plugins=(static, dynamic))
    digests = {each.name: hashlib.sha256(each.read_bytes()).hexdigest() for each in (static, dynamic)}
    assert options.given() == {"plugins": digests}
    assert [is_dynamic(each) for each in (static, dynamic)] == [False, True]
    stored = DeploymentOptions(plugins=(dynamic,), serialize_plugins=True)
    assert stored.given() == {"plugins": {"dynamic.so": digests["dynamic.so"]}, "serialize_plugins": True}
    with pytest.raises(UsageError, match="does not export getCreators"):
        replace(options, serialize_plugins=True)
    assert DeploymentOptions(plugins=(static, static)).given() == DeploymentOptions(plugins=(static,)).given()
    with pytest.raises(UsageError, match="two plugin libraries have one name"):
        DeploymentOptions(plugins=(static, tmp_path / "other" / static.name))
