"""Locked builds: the same model, options and product build, anything else is listed and leaves nothing."""

import hashlib
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import onnx
import pytest
from support.command import qdqtool
from support.engine_models import conv, save
from support.qdq import text_model

from qdqtool.engines.build.lock import BuildLockedError
from qdqtool.engines.build.options import BuildOptions, ProfileOptions
from qdqtool.engines.build.precision_gate import PrecisionGate
from qdqtool.engines.build.profiles import ShapeOptions
from qdqtool.engines.tensorrt.backends.tensorrt_rtx import BUILDER as RTX
from qdqtool.engines.tensorrt.deployment import DeploymentOptions
from qdqtool.engines.tensorrt.shape_values import ShapeValues
from qdqtool.errors import ModelError
from qdqtool.jobs.build import build_engine
from qdqtool.models.graph.io.save import save_model

pytestmark = pytest.mark.builder
DYNAMIC = {"x": ("batch", 16, "height", "width")}
FIRST, SECOND, THIRD = ({"x": (size, 16, 8, 8)} for size in (1, 2, 4))
OPTIONS = BuildOptions(
    shapes=ShapeOptions(opt=FIRST),
    further_profiles=(ProfileOptions(shapes=ShapeOptions(opt=SECOND)),),
    deployment=DeploymentOptions(weight_streaming=True),
    compute_capabilities=("8.6", "8.9"),
    require_precision=(PrecisionGate("int8", 50),),
    skip_validate=True,
    timeout=120,
)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model that has external data, its engine and manifest."""
    pytest.importorskip("tensorrt_rtx")
    folder = tmp_path_factory.mktemp("kept")
    onnx.save(conv(inputs=DYNAMIC), folder / "m.onnx", save_as_external_data=True, location="m.data", size_threshold=16)
    build_engine(folder / "m.onnx", folder / "e.engine", backend="tensorrt-rtx", options=OPTIONS)
    return folder


@pytest.fixture
def here(kept: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(kept, tmp_path / "here"))


def rebuild(folder: Path, output: str = "again.engine", **changes: Any) -> Any:
    options = replace(OPTIONS, locked=folder / "e.engine.manifest.json", **changes)
    return build_engine(folder / "m.onnx", folder / output, backend="tensorrt-rtx", options=options)


def differences(folder: Path, **changes: Any) -> list[str]:
    """What a locked build says differs; it writes nothing."""
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(BuildLockedError, match=r"the build differs from .*; nothing was written") as caught:
        rebuild(folder, **changes)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    return [refusal.reason for refusal in caught.value.refusals]


def edit(folder: Path, **changes: Any) -> None:
    file = folder / "e.engine.manifest.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))


def test_the_same_build_gives_the_same_bytes(here):
    report = rebuild(here)
    assert (report.locked.same_bytes, report.locked.same_kernels) == (True, True)
    for name in ("engine", "engine.manifest.json"):
        assert (here / f"again.{name}").read_bytes().replace(b"again.", b"e.") == (here / f"e.{name}").read_bytes()


def test_in_its_place_the_manifest_stays_as_it_is(here):
    edit(here, warnings=["of the user"])
    before = (here / "e.engine.manifest.json").read_bytes()
    (here / "e.engine").unlink()
    assert rebuild(here, "e.engine").locked.same_bytes
    assert (here / "e.engine.manifest.json").read_bytes() == before


CHANGES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "targets": ({"compute_capabilities": ("8.9",)}, ['targets is ["8.9"]; the manifest has ["8.6","8.9"]']),
    "the shape of a profile": (
        {"shapes": ShapeOptions(opt=THIRD)},
        [f"profile 0 input x {kind} is [4,16,8,8]; the manifest has [1,16,8,8]" for kind in ("min", "opt", "max")],
    ),
    "one profile less": ({"further_profiles": ()}, ["profile 1 input x is absent; the manifest has {"]),
    "a fixed shape": (
        {"shapes": ShapeOptions(fixed=FIRST), "further_profiles": ()},
        ["specialized is {", "profile 0 input x is absent", "profile 1 input x is absent"],
    ),
    "an option more": (
        {"deployment": DeploymentOptions(weight_streaming=True, builder_optimization_level=5)},
        ["options builder_optimization_level is 5; the manifest has absent"],
    ),
    "an option less": (
        {"deployment": DeploymentOptions()},
        ["options weight_streaming is absent; the manifest has true"],
    ),
    "validate": ({"skip_validate": False}, ['skipped is []; the manifest has ["validate"]']),
    "a gate": ({"require_precision": ()}, ['gates is []; the manifest has ["int8>=50%"]']),
    "all of it": (
        {"compute_capabilities": ("8.9",), "deployment": DeploymentOptions(), "require_precision": ()},
        ["targets is ", "options weight_streaming is ", "gates is "],
    ),
}


@pytest.mark.parametrize("case", CHANGES)
def test_other_options_are_listed(here, case):
    changes, expected = CHANGES[case]
    found = differences(here, **changes)
    assert len(found) == len(expected)
    assert all(text.startswith(start) for text, start in zip(found, expected, strict=True))


def test_other_values_of_inputs_that_decide_shapes_are_listed(tmp_path):
    model = text_model(
        """<ir_version: 8, opset_import: ["": 17]>
        g (float[1,12] x, int64[2] size) => (float[a,b] y) { y = Reshape (x, size) }"""
    )
    save_model(model, tmp_path / "m.onnx")
    first, other = (
        BuildOptions(shape_values=ShapeValues(opt={"size": size}), timeout=120) for size in ((3, 4), (2, 6))
    )
    build_engine(tmp_path / "m.onnx", tmp_path / "e", backend="tensorrt-rtx", options=first)
    locked = replace(other, locked=tmp_path / "e.manifest.json")
    with pytest.raises(BuildLockedError) as caught:
        build_engine(tmp_path / "m.onnx", tmp_path / "o", backend="tensorrt-rtx", options=locked)
    assert [refusal.reason for refusal in caught.value.refusals] == [
        f"values of profile 0 input size {kind} is [2,6]; the manifest has [3,4]" for kind in ("min", "opt", "max")
    ]
    assert not (tmp_path / "o").exists()


def test_another_model_and_other_external_data_are_listed(here):
    data = bytearray((here / "m.data").read_bytes())
    data[0] ^= 1
    (here / "m.data").write_bytes(data)
    (found,) = differences(here)
    assert found.startswith("external data m.data is ")
    model = onnx.load(here / "m.onnx", load_external_data=False)
    model.doc_string = "changed"
    onnx.save(model, here / "m.onnx")
    assert [text.partition(" is ")[0] for text in differences(here)] == ["model sha256", "external data m.data"]


def test_another_version_and_product_are_listed(here):
    versions = json.loads((here / "e.engine.manifest.json").read_text())["versions"]
    edit(here, versions={**versions, "tensorrt-rtx": "1.6.1.120"})
    (found,) = differences(here)
    assert found.startswith("version is ")
    assert found.endswith("the manifest has 1.6.1.120")
    edit(here, backend="tensorrt", versions={"tensorrt": "10.16.1.11"})
    assert [text.partition(" is ")[0] for text in differences(here)] == ["backend", "version"]


def test_timings_are_compared_where_the_build_had_some(here, tmp_path):
    timings = tmp_path / "t.cache"
    timings.write_bytes(b"timings")
    cached = replace(OPTIONS.deployment, timing_cache_file=timings)
    build_engine(here / "m.onnx", here / "e.engine", options=replace(OPTIONS, deployment=cached))
    timings.write_bytes(b"other ones")
    assert rebuild(here, deployment=cached).locked.same_bytes

    digest = hashlib.sha256(b"timings").hexdigest()
    edit(here, timing_cache={"name": "t.cache", "bytes": 7, "sha256": digest})
    (found,) = differences(here, deployment=cached)
    assert found.startswith("timing cache is ")
    timings.unlink()
    assert differences(here, deployment=cached)[0].startswith("timing cache is absent; the manifest has ")
    timings.write_bytes(b"timings")
    assert rebuild(here, deployment=cached).locked.same_bytes
    assert [text.partition(" is ")[0] for text in differences(here)] == ["options timing_cache_file", "timing cache"]


def test_other_bytes_with_the_same_kernels_are_told_and_written_elsewhere_only(here):
    facts = json.loads((here / "e.engine.manifest.json").read_text())
    edit(here, engine={**facts["engine"], "sha256": "0"})
    report = rebuild(here)
    assert (report.locked.same_bytes, report.locked.same_kernels) == (False, True)
    with pytest.raises(BuildLockedError, match="the bytes of the engine differ from those that this manifest records"):
        rebuild(here, "e.engine")


def test_other_kernels_write_nothing(here, monkeypatch):
    build = type(RTX).build

    def without_one(self, request):
        built = build(self, request)
        return replace(built, kernels=built.kernels[:-1])

    monkeypatch.setattr(type(RTX), "build", without_one)
    (found,) = differences(here)
    count = len(json.loads((here / "e.engine.manifest.json").read_text())["kernels"])
    assert found == f"the engine has {count - 1} kernels; the manifest has {count}"


def test_builds_without_evidence_have_no_kernels_to_compare(here, monkeypatch):
    build = type(RTX).build
    monkeypatch.setattr(type(RTX), "build", lambda self, request: replace(build(self, request), kernels=()))
    edit(here, kernels=[])
    assert rebuild(here, require_precision=OPTIONS.require_precision).locked.same_kernels is None


def test_what_is_no_lock(here):
    facts = json.loads((here / "e.engine.manifest.json").read_text())
    del facts["options"]
    (here / "e.engine.manifest.json").write_text(json.dumps(facts))
    with pytest.raises(ModelError, match="does not contain the options"):
        rebuild(here)
    (here / "e.engine.manifest.json").write_text("{")
    with pytest.raises(ModelError, match="is not a manifest"):
        rebuild(here)
    (here / "e.engine.manifest.json").unlink()
    with pytest.raises(ModelError, match="cannot be read"):
        rebuild(here)


def test_on_the_command_line(tmp_path):
    path = save(conv(), tmp_path)
    words = ("build", path, "--backend", "tensorrt-rtx", "--skip-validate", "--compute-capabilities", "8.9")
    assert qdqtool(*words, "-o", tmp_path / "a").code == 0
    locked = ("--locked", tmp_path / "a.manifest.json", "-o", tmp_path / "b")
    done = qdqtool(*words, *locked)
    assert (done.code, "the engine has the same bytes" in done.out) == (0, True)
    (tmp_path / "b").unlink()
    done = qdqtool(*words, *locked, "--vc", "--exclude-lean-runtime", "--output-format", "json")
    report = json.loads(done.out)
    assert (done.code, report["stage"], report["passed"]) == (1, "locked", False)
    assert [refusal["reason"] for refusal in report["refusals"]] == [
        "options exclude_lean_runtime is true; the manifest has absent",
        "options version_compatible is true; the manifest has absent",
    ]
    assert not (tmp_path / "b").exists()
