"""Deployment options in the child process, against an API in which anything may be absent or refuse a value."""

from types import SimpleNamespace
from typing import Any

import pytest

from qdqtool.engines.tensorrt.deployment import FLAGS, POOLS, spelled
from qdqtool.engines.tensorrt.parsing import lacking_option, set_options, write_cache

NOTHING = {"flags": {}, "level": None, "pools": {}, "timing_cache": None, "plugins": {}, "serialize": False}
EVERYTHING = {
    "flags": {spelled(name): member for name, member in FLAGS.items()},
    "level": 3,
    "pools": {name: (member, 1 << 20) for name, member in POOLS.items()},
    "timing_cache": "t.cache",
    "plugins": {"a.so": True, "b.so": True},
    "serialize": True,
}


class Cache(bytes):
    def serialize(self) -> bytes:
        return bytes(self)


class Config:
    """A configuration that keeps what is set, but for what ``deaf`` names."""

    deaf: tuple[str, ...] = ()
    builder_optimization_level = 3

    def __init__(self) -> None:
        self.flags: set[str] = set()
        self.limits: dict[str, int] = {}
        self.cache = Cache()

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, [] if name in self.deaf else value)

    def set_flag(self, flag: str) -> None:
        if flag not in self.deaf:
            self.flags.add(flag)

    def get_flag(self, flag: str) -> bool:
        return flag in self.flags

    def set_memory_pool_limit(self, pool: str, size: int) -> None:
        if pool not in self.deaf:
            self.limits[pool] = size

    def get_memory_pool_limit(self, pool: str) -> int:
        return self.limits.get(pool, -1)

    def create_timing_cache(self, data: bytes) -> Cache:
        return Cache(data)

    def set_timing_cache(self, cache: Cache, ignore_mismatch: bool) -> bool:
        self.cache = cache
        return "cache" not in self.deaf and not ignore_mismatch

    def get_timing_cache(self) -> Cache:
        return self.cache


def api(**without: str) -> Any:
    """A module like TensorRT's, without one member of each named enumeration."""

    def members(kind: str, names: Any) -> Any:
        return type(kind, (), {"__members__": {name: name for name in names if name != without.get(kind)}})

    lacked = without.get("IBuilderConfig")
    config = type("IBuilderConfig", (), {name: 0 for name in dir(Config) if name != lacked})
    return SimpleNamespace(
        BuilderFlag=members("BuilderFlag", FLAGS.values()),
        MemoryPoolType=members("MemoryPoolType", POOLS.values()),
        IBuilderConfig=config,
    )


def test_an_api_that_has_everything_lacks_nothing():
    assert lacking_option(api(), EVERYTHING) is None


@pytest.mark.parametrize(
    ("without", "expected"),
    [
        *(({"BuilderFlag": member}, (spelled(name), f"BuilderFlag.{member}")) for name, member in FLAGS.items()),
        *(
            ({"MemoryPoolType": member}, (f"--mem-pool-size {name}", f"MemoryPoolType.{member}"))
            for name, member in POOLS.items()
        ),
        (
            {"IBuilderConfig": "builder_optimization_level"},
            ("--builder-optimization-level", "IBuilderConfig.builder_optimization_level"),
        ),
        ({"IBuilderConfig": "set_timing_cache"}, ("--timing-cache-file", "IBuilderConfig.set_timing_cache")),
    ],
)
def test_what_is_absent_is_named_and_no_matter_where_it_was_not_asked_for(without, expected):
    assert lacking_option(api(**without), EVERYTHING) == expected
    assert lacking_option(api(**without), NOTHING) is None


def test_all_options_are_set(tmp_path):
    config = Config()
    (tmp_path / "t.cache").write_bytes(b"timings")
    wanted = {**EVERYTHING, "level": 5, "timing_cache": str(tmp_path / "t.cache")}
    assert set_options(api(), config, wanted, []) is None
    assert config.flags == set(FLAGS.values())
    assert config.builder_optimization_level == 5
    assert config.plugins_to_serialize == ["a.so", "b.so"]
    assert config.limits == dict.fromkeys(POOLS.values(), 1 << 20)
    config.cache = Cache(config.cache + b" and more")
    write_cache(config, wanted)
    assert (tmp_path / "t.cache").read_bytes() == b"timings and more"


@pytest.mark.parametrize("deaf", [*FLAGS.values(), *POOLS.values(), "cache", "plugins_to_serialize"])
def test_what_the_builder_does_not_take_is_found(tmp_path, deaf):
    config = Config()
    config.deaf = (deaf,)
    (tmp_path / "t.cache").touch()
    found = set_options(api(), config, {**EVERYTHING, "timing_cache": str(tmp_path / "t.cache")}, [])
    options = {member: option for option, member in EVERYTHING["flags"].items()}
    options |= {member: f"--mem-pool-size {name}" for name, member in POOLS.items()}
    others = {"cache": "--timing-cache-file", "plugins_to_serialize": "--serialize-plugins"}
    assert found[0] == {**options, **others}[deaf]


def test_a_file_that_gives_a_warning_is_no_timing_cache(tmp_path):
    config, problems = Config(), []
    config.create_timing_cache = lambda data: problems.append("Failed to deserialize") or Cache()
    (tmp_path / "t.cache").write_bytes(b"a photo")
    found = set_options(api(), config, {**NOTHING, "timing_cache": str(tmp_path / "t.cache")}, problems)
    assert found == ("--timing-cache-file", "the file is not a timing cache of this version and GPU")


@pytest.mark.builder
def test_the_installed_api_has_everything():
    assert lacking_option(pytest.importorskip("tensorrt_rtx"), EVERYTHING) is None


@pytest.mark.builder
@pytest.mark.parametrize(
    ("wanted", "option"), [({"level": 6}, "--builder-optimization-level 6"), ({"level": 5}, None), ({"level": 0}, None)]
)
def test_a_level_that_the_builder_clamps_is_refused(wanted, option):
    trt = pytest.importorskip("tensorrt_rtx")
    config = trt.Builder(trt.Logger(trt.Logger.INTERNAL_ERROR)).create_builder_config()
    found = set_options(trt, config, {**NOTHING, **wanted}, [])
    assert (found and found[0]) == option
