"""The build job: what it writes, what it leaves behind when something goes wrong, and what it reports."""

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import onnx
import pytest
from support.engine_models import FP8, INT8, conv, crashing, matmul, mixed_axes, refused, save, squeeze_excite
from support.generated_plan import write_generated_plan
from support.qdq import text_model

import qdqtool
from qdqtool.engines.build.options import BuildOptions, ProfileOptions
from qdqtool.engines.build.precision_gate import PrecisionGate, gate_result, parse_gate
from qdqtool.engines.build.profiles import ShapeOptions
from qdqtool.engines.tensorrt.builder import BuilderFailedError, BuildRefusedError
from qdqtool.engines.tensorrt.deployment import DeploymentOptions
from qdqtool.engines.tensorrt.gpus import find_gpus
from qdqtool.engines.tensorrt.shape_values import ShapeValues
from qdqtool.engines.tensorrt.tensorrt_builder import TensorRT
from qdqtool.errors import ArgumentError, CapabilityError, GateError, ModelError, OutputError, UsageError
from qdqtool.jobs.build import build_engine
from qdqtool.jobs.insert import insert_plan
from qdqtool.models.graph.io.load import load_model
from qdqtool.models.graph.io.save import save_model
from qdqtool.reports import json as json_report

pytestmark = pytest.mark.builder
UNCHECKED = BuildOptions(skip_validate=True, timeout=120)


@pytest.fixture(autouse=True)
def _has_the_builder():
    pytest.importorskip("tensorrt_rtx")


def files(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """One build whose report and files several tests look at."""
    pytest.importorskip("tensorrt_rtx")
    folder = tmp_path_factory.mktemp("built")
    words = {"export_layer_info": folder / "layers.json", "timeout": 120}
    report = qdqtool.build_engine(save(mixed_axes(), folder), folder / "e.engine", backend="tensorrt-rtx", **words)
    return folder, report


def test_the_report_counts_planned_and_achieved_nodes(built):
    _, report = built
    assert report.passed
    assert report.evidence == "aot-dump"
    assert (report.planned, report.achieved) == ({"int8": 3}, {"int8": 2})
    assert [node.name for node in report.nodes if node.reason] == ["a.Conv"]
    assert report.findings is not None
    assert report.skipped == ()
    assert report.work is not None
    model, engine = (sum(work.by_type.values()) for work in (report.work, report.macs))
    assert model == engine
    assert report.work.by_type["float32"] < sum(report.work.float32.values()) == report.macs.by_type["float32"]
    assert (set(report.work.by_type), set(report.macs.by_type)) == ({"int8", "float32"},) * 2


def test_the_keys_of_the_json_report_that_others_rely_on(built):
    encoded = json.loads(json_report.render(built[1]))
    expected = {"schema_version", "engine", "backend", "evidence", "seconds", "bytes", "planned", "achieved", "nodes"}
    assert expected <= set(encoded)
    assert {"name", "op_type", "planned", "actual", "kernel", "reason"} <= set(encoded["nodes"][0])


def test_the_manifest_has_the_fingerprints_of_what_is_there(built):
    folder, report = built
    manifest = json.loads((folder / "e.engine.manifest.json").read_text())
    for part, name in (("model", "m.onnx"), ("engine", "e.engine")):
        data = (folder / name).read_bytes()
        assert manifest[part]["name"] == name
        assert manifest[part]["bytes"] == len(data)
        assert manifest[part]["sha256"] == hashlib.sha256(data).hexdigest()
    assert manifest["versions"]["tensorrt-rtx"] == report.version
    assert manifest["targets"] == ["8.0", "8.6", "8.9", "12.0", "12.1"]
    assert [node["name"] for node in manifest["fallbacks"]] == ["a.Conv"]


def test_the_layer_file_has_a_line_for_each_kernel_and_the_builders_own_text(built):
    layers = json.loads((built[0] / "layers.json").read_text())
    assert layers["Dump"].startswith("Layers:")
    assert len(layers["Layers"]) == layers["Dump"].count("LayerType: ")


def test_nothing_else_is_left(built):
    assert files(built[0]) == ["e.engine", "e.engine.manifest.json", "layers.json", "m.onnx"]


def test_the_same_build_gives_the_same_bytes(built, tmp_path):
    folder, _ = built
    build_engine(folder / "m.onnx", tmp_path / "e.engine", options=BuildOptions(timeout=120))
    for name in ("e.engine", "e.engine.manifest.json"):
        assert (tmp_path / name).read_bytes() == (folder / name).read_bytes()


def test_external_data_is_read_and_fingerprinted(tmp_path):
    build_engine(with_external_data(tmp_path), tmp_path / "e.engine", options=UNCHECKED)
    manifest = json.loads((tmp_path / "e.engine.manifest.json").read_text())
    assert [entry["name"] for entry in manifest["model"]["external_data"]] == ["m.data"]
    assert manifest["skipped"] == ["validate"]


def test_a_dynamic_input_gets_a_profile(tmp_path):
    path = save(conv(inputs={"x": ("batch", 16, "height", "width")}), tmp_path)
    shapes = ShapeOptions(min={"x": (1, 16, 8, 8)}, opt={"x": (2, 16, 8, 8)}, max={"x": (4, 16, 32, 32)})
    report = build_engine(path, tmp_path / "e.engine", options=BuildOptions(shapes=shapes, timeout=120))
    assert report.achieved == {"int8": 1}
    assert report.profiles[0].max == (4, 16, 32, 32)
    assert report.work is not None
    assert report.work.by_type == {"int8": 2 * 6 * 6 * 16 * 16 * 9}


def test_a_cache_that_is_empty_at_first_is_built(tmp_path):
    model = text_model(
        """<ir_version: 8, opset_import: ["": 17]>
        g (float[1,2,4,8] x, float[1,2,past,8] k0) => (float[1,2,total,8] y) { y = Concat <axis = 2> (k0, x) }"""
    )
    shapes = ShapeOptions(min={"k0": (1, 2, 0, 8)}, max={"k0": (1, 2, 16, 8)})
    save_model(model, tmp_path / "m.onnx")
    report = build_engine(tmp_path / "m.onnx", tmp_path / "e.engine", options=BuildOptions(shapes=shapes, timeout=120))
    (profile,) = report.profiles
    assert (profile.min, profile.max) == ((1, 2, 0, 8), (1, 2, 16, 8))


@pytest.mark.parametrize(
    ("gate", "passed"), [("int8>=66%", True), ("int8>=67%", False), ("float8e4m3fn>=1%", False), ("int8>=0%", True)]
)
def test_gates_on_the_report(built, gate, passed):
    assert gate_result(parse_gate(gate), built[1].nodes).passed is passed


@pytest.mark.parametrize("kind", ["int8", "float8e4m3fn"])
@pytest.mark.parametrize("quantize_last", [True, False])
def test_a_conv_inside_a_generated_kernel_is_counted_by_what_it_multiplies(tmp_path, kind, quantize_last):
    model = squeeze_excite(INT8 if kind == "int8" else FP8, quantize_last)
    onnx.save(model, tmp_path / "m.onnx")
    options = BuildOptions(compute_capabilities=("8.9",), skip_validate=True)
    report = build_engine(tmp_path / "m.onnx", tmp_path / "m.engine", options=options)
    actual = {node.name: node.actual for node in report.nodes}
    assert {actual[name] for name in ("a.Conv", "b.Conv")} == {kind}
    assert (actual.get("c.Conv") == kind) == quantize_last


def test_a_missed_gate_leaves_the_old_engine_and_writes_none(tmp_path):
    path = save(mixed_axes(), tmp_path)
    (tmp_path / "e.engine").write_bytes(b"old")
    options = BuildOptions(require_precision=(PrecisionGate("int8", 95),), timeout=120)
    report = build_engine(path, tmp_path / "e.engine", options=options)
    (gate,) = report.gates
    assert (report.passed, gate.gate, gate.passed, gate.found) == (False, "int8>=95%", False, "2 of 3 nodes (66.7 %)")
    assert [(node.name, node.actual) for node in report.nodes if node.actual != node.planned] == [("a.Conv", "float32")]
    assert report.engine is None
    assert report.manifest is None
    assert (tmp_path / "e.engine").read_bytes() == b"old"
    assert files(tmp_path) == ["e.engine", "m.onnx"]


def with_external_data(folder):
    onnx.save(conv(), folder / "m.onnx", save_as_external_data=True, location="m.data", size_threshold=16)
    return folder / "m.onnx"


@pytest.mark.parametrize("text", ["int8>=x%", ">=5%"])
def test_what_is_no_gate(text):
    with pytest.raises(UsageError, match="is no precision gate"):
        parse_gate(text)


def missing_data(folder):
    path = with_external_data(folder)
    (folder / "m.data").unlink()
    return path


def linked_data(folder):
    path = with_external_data(folder)
    outside = folder.parent / f"{folder.name}-outside.data"
    (folder / "m.data").rename(outside)
    (folder / "m.data").symlink_to(outside)
    return path


def open_input(_):
    return conv(inputs={"x": (1, 16, "h", "w")})


SHORT = BuildOptions(skip_validate=True, timeout=0.01)
OLD_GPU = BuildOptions(compute_capabilities=("8.6",))
ONE_FILE = BuildOptions(layer_info=Path("e.engine.manifest.json"))
FAILURES = {
    "validate finds errors": (lambda _: refused(), BuildOptions(), BuildRefusedError, "validate for"),
    "the parser refuses": (lambda _: refused(), UNCHECKED, BuildRefusedError, "refuses node 'bias_d"),
    "the builder crashes": (lambda _: crashing(), UNCHECKED, BuilderFailedError, "SIGSEGV"),
    "time is up": (lambda _: conv(), SHORT, BuilderFailedError, "stopped after 0.01 s"),
    "no such file": (lambda folder: folder / "absent.onnx", UNCHECKED, ModelError, "no such file"),
    "external data is missing": (missing_data, UNCHECKED, ModelError, "'m.data' .* is missing"),
    "external data is outside": (linked_data, UNCHECKED, ModelError, "outside the model's folder"),
    "a target lacks the type": (
        lambda _: matmul(kind=17, x_kind=17),
        OLD_GPU,
        UsageError,
        "compute capability 8.6 cannot",
    ),
    "a shape is missing": (open_input, UNCHECKED, UsageError, "without a size"),
    "two outputs are one file": (lambda _: conv(), ONE_FILE, UsageError, "same name"),
}


@pytest.mark.parametrize("case", FAILURES)
def test_a_failure_leaves_nothing_behind(case, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    prepare, options, error, message = FAILURES[case]
    path = prepare(tmp_path)
    path = save(path, tmp_path) if isinstance(path, onnx.ModelProto) else path
    before = files(tmp_path)
    with pytest.raises(error, match=message):
        build_engine(path, tmp_path / "e.engine", options=options)
    assert files(tmp_path) == before


@pytest.mark.parametrize("changed", ["m.onnx", "m.data"])
@pytest.mark.parametrize("moment", ["before the builder reads", "after it has read"])
def test_a_file_that_is_replaced_during_the_build_is_named_and_gives_no_engine(changed, moment, tmp_path, monkeypatch):
    path = with_external_data(tmp_path)
    build, file = TensorRT.build, tmp_path / changed
    other = file.read_bytes()[::-1] if changed == "m.data" else matmul().SerializeToString()

    def replaced(builder, request):
        if moment == "before the builder reads":
            file.write_bytes(other)
        try:
            return build(builder, request)
        finally:
            file.write_bytes(other)

    monkeypatch.setattr(TensorRT, "build", replaced)
    with pytest.raises(ModelError, match=f"^{changed} changed during the build of .*; no engine was written"):
        build_engine(path, tmp_path / "e.engine", options=UNCHECKED)
    assert files(tmp_path) == ["m.data", "m.onnx"]


def test_a_fault_of_fixed_shapes_leads_to_other_shapes(tmp_path):
    """Without these shapes `validate` finds nothing."""
    path = save(open_input(tmp_path), tmp_path)
    with pytest.raises(BuildRefusedError, match="kernel that spans 3 elements") as caught:
        build_engine(path, tmp_path / "e", options=BuildOptions(shapes=ShapeOptions(fixed={"x": (1, 16, 2, 2)})))
    assert caught.value.hint.startswith("other --input-shapes and --input-values may pass; `--skip-validate`")
    options = BuildOptions(shapes=ShapeOptions(fixed={"x": (1, 16, 4, 4)}), timeout=120)
    assert build_engine(path, tmp_path / "e", options=options).passed


def test_ctrl_c_ends_the_builder_and_leaves_nothing(tmp_path, monkeypatch):
    started = []

    def interrupted(child, timeout=None):
        started.append(child)
        monkeypatch.undo()
        raise KeyboardInterrupt

    path = save(conv(), tmp_path)
    monkeypatch.setattr("subprocess.Popen.wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        build_engine(path, tmp_path / "e.engine", options=UNCHECKED)
    assert started[0].poll() is not None
    assert files(tmp_path) == ["m.onnx"]


def test_an_unwritable_folder(tmp_path, monkeypatch):
    def refuse(**_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("tempfile.mkstemp", refuse)
    with pytest.raises(OutputError, match="Permission denied; nothing was left"):
        build_engine(save(conv(), tmp_path), tmp_path / "e.engine", options=UNCHECKED)


def test_an_engine_for_nobody_has_no_manifest(tmp_path):
    report = build_engine(save(conv(), tmp_path), "/dev/null", options=UNCHECKED)
    assert (report.passed, report.engine, report.manifest) == (True, "/dev/null", None)
    assert files(tmp_path) == ["m.onnx"]
    assert Path("/dev/null").is_char_device()


def test_the_model_is_never_overwritten(tmp_path):
    path = save(conv(), tmp_path)
    with pytest.raises(UsageError, match="also an input"):
        build_engine(path, path, options=UNCHECKED)


def test_an_unknown_backend(tmp_path):
    with pytest.raises(ArgumentError, match="did you mean 'tensorrt'"):
        build_engine(tmp_path / "m.onnx", tmp_path / "e", backend="tensort")


def test_an_absent_backend(tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(CapabilityError, match="TensorRT for RTX is not installed"):
        build_engine(save(conv(), tmp_path), tmp_path / "e.engine")


def test_a_timeout_must_be_positive():
    with pytest.raises(UsageError, match="must be greater than 0"):
        BuildOptions(timeout=0)


REAL_SHAPES = {
    "yunet_n_dynamic": {"input": (1, 3, 320, 320)},
    "silero_vad_16k_op15": {"input": (1, 576), "state": (2, 1, 128)},
}


@pytest.mark.real
def test_real_float_models_build_or_say_why(real_model, tmp_path):
    options = BuildOptions(timeout=300, shapes=ShapeOptions(opt=REAL_SHAPES.get(real_model.stem, {})))
    if real_model.stem.startswith("silero"):
        with pytest.raises(BuildRefusedError, match="internal error in the control flow"):
            build_engine(real_model, tmp_path / "e.engine", options=options)
        assert files(tmp_path) == []
        return
    report = build_engine(real_model, tmp_path / "e.engine", options=options)
    assert report.bytes == (tmp_path / "e.engine").stat().st_size > 0
    assert report.planned == {}


@pytest.mark.real
def test_every_planned_node_of_the_real_models_runs_in_int8(real_model, tmp_path):
    if real_model.stem.startswith("silero"):
        pytest.skip("the builder refuses even the float model")
    plan = write_generated_plan(load_model(real_model), tmp_path)
    insert_plan(real_model, plan, tmp_path / "q.onnx")
    shapes = ShapeOptions(opt=REAL_SHAPES.get(real_model.stem, {}))
    report = build_engine(tmp_path / "q.onnx", tmp_path / "e.engine", options=BuildOptions(timeout=300, shapes=shapes))
    weighted = sum(node.op_type in {"Conv", "Gemm", "MatMul"} for node in onnx.load(real_model).graph.node)
    assert report.achieved == report.planned == {"int8": weighted}


# --- deployment options ---

DYNAMIC = {"x": ("batch", 16, "height", "width")}


def build_with(folder, model=None, name="e", **options):
    """Build with deployment options; return the report and the bytes of the engine."""
    path = folder / "m.onnx" if (folder / "m.onnx").exists() else save(model or conv(), folder)
    deployment = DeploymentOptions(**options)
    settings = BuildOptions(deployment=deployment, skip_validate=True, timeout=120, compute_capabilities=("8.9",))
    report = build_engine(path, folder / name, backend="tensorrt-rtx", options=settings)
    return report, (folder / name).read_bytes()


@pytest.mark.parametrize(
    ("options", "changes"),
    [
        ({"builder_optimization_level": 0}, False),
        ({"builder_optimization_level": 5}, False),
        ({"weight_streaming": True}, True),
        ({"version_compatible": True, "exclude_lean_runtime": True}, True),
        ({"mem_pool_size": {"workspace": 1 << 30}}, True),
        ({"mem_pool_size": {"tacticSharedMem": 1 << 20}}, True),
    ],
)
def test_an_option_reaches_the_engine_and_the_manifest_or_a_warning_says_that_it_does_nothing(
    tmp_path, options, changes
):
    _, plain = build_with(tmp_path)
    report, engine = build_with(tmp_path, name="o", **options)
    _, again = build_with(tmp_path, name="again", **options)
    assert (engine != plain) == changes
    assert engine == again
    assert bool(report.warnings) != changes
    manifest = json.loads((tmp_path / "o.manifest.json").read_text())
    assert manifest["options"] == report.options == json.loads(json.dumps(options))


def test_a_timing_cache_is_left_alone_where_it_changes_nothing(tmp_path):
    other = tmp_path / "photo.jpg"
    other.write_bytes(b"\xff\xd8 a photo")
    _, plain = build_with(tmp_path)
    report, engine = build_with(tmp_path, timing_cache_file=other, error_on_timing_cache_miss=True)
    assert [warning.partition(" has no effect")[0] for warning in report.warnings] == [
        "--error-on-timing-cache-miss",
        "--timing-cache-file",
    ]
    assert "neither read nor written" in report.warnings[1]
    assert engine == plain
    assert other.read_bytes() == b"\xff\xd8 a photo"
    assert report.options == {"error_on_timing_cache_miss": True, "timing_cache_file": "photo.jpg"}
    build_with(tmp_path, timing_cache_file=tmp_path / "new.cache")
    assert files(tmp_path) == ["e", "e.manifest.json", "m.onnx", "photo.jpg"]


def test_a_model_is_no_timing_cache(tmp_path):
    path = save(conv(), tmp_path)
    with pytest.raises(UsageError, match="also an input"):
        build_with(tmp_path, timing_cache_file=path)


def test_a_level_that_the_builder_would_clamp_is_refused(tmp_path):
    with pytest.raises(UsageError, match=r"does not accept --builder-optimization-level 6: the highest level is 5"):
        build_with(tmp_path, builder_optimization_level=6)
    assert files(tmp_path) == ["m.onnx"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"refit": True}, "needs a CUDA device to build with --refit"),
        ({"strip_weights": True}, "needs a CUDA device to build with --strip-weights"),
        ({"version_compatible": True}, r"the library libnvinfer_lean\.so\.\d+ for"),
    ],
)
def test_what_the_machine_lacks_for_an_option_is_named(tmp_path, options, message):
    if find_gpus()[0]:
        pytest.skip("a GPU is here")
    with pytest.raises(CapabilityError, match=message):
        build_with(tmp_path, **options)
    assert files(tmp_path) == ["m.onnx"]


def test_a_pool_that_is_too_small_is_told_and_not_taken_for_a_fault_of_the_model(tmp_path):
    with pytest.raises(GateError, match="finds no kernels for the model within 1024 bytes of workspace") as caught:
        build_with(tmp_path, mem_pool_size={"workspace": 1024})
    assert not isinstance(caught.value, BuildRefusedError)
    assert files(tmp_path) == ["m.onnx"]


def test_a_refit_is_for_one_gpu(tmp_path):
    options = BuildOptions(deployment=DeploymentOptions(refit=True), compute_capabilities=("8.6", "8.9"))
    with pytest.raises(UsageError, match="for one compute capability only; 2 are given"):
        build_engine(save(conv(), tmp_path), tmp_path / "e", options=options)


def test_each_profile_has_shapes_of_its_own(tmp_path):
    path = save(conv(inputs=DYNAMIC), tmp_path)
    first, second = {"x": (1, 16, 8, 8)}, {"x": (4, 16, 32, 32)}
    further = (ProfileOptions(shapes=ShapeOptions(min=first, max=second)),)
    options = BuildOptions(shapes=ShapeOptions(opt=first), skip_validate=True, timeout=120)
    one = build_engine(path, tmp_path / "1", options=options)
    two = build_engine(path, tmp_path / "2", options=replace(options, further_profiles=further))
    assert [(each.profile, each.min, each.opt) for each in two.profiles] == [
        (0, first["x"], first["x"]),
        (1, first["x"], second["x"]),
    ]
    assert two.bytes > one.bytes
    assert [entry["profile"] for entry in json.loads((tmp_path / "2.manifest.json").read_text())["profiles"]] == [0, 1]


def test_profiles_of_values(tmp_path):
    model = text_model(
        """<ir_version: 8, opset_import: ["": 17]>
        g (float[1,12] x, int64[2] size) => (float[a,b] y) { y = Reshape (x, size) }"""
    )
    save_model(model, tmp_path / "m.onnx")
    values = [ShapeValues(opt={"size": given}) for given in ((3, 4), (2, 6))]
    options = BuildOptions(
        shape_values=values[0], further_profiles=(ProfileOptions(shape_values=values[1]),), timeout=120
    )
    report = build_engine(tmp_path / "m.onnx", tmp_path / "e", options=options)
    assert [(each.profile, each.opt) for each in report.shape_values] == [(0, (3, 4)), (1, (2, 6))]
    lacking = replace(options, further_profiles=(ProfileOptions(),))
    with pytest.raises(UsageError, match="decides shapes by its values"):
        build_engine(tmp_path / "m.onnx", tmp_path / "e", options=lacking)


def test_a_model_without_dynamic_inputs_has_no_further_profile(tmp_path):
    options = BuildOptions(further_profiles=(ProfileOptions(shapes=ShapeOptions(opt={"x": (1, 16, 8, 8)})),))
    with pytest.raises(UsageError, match="--profile 1 is given, but the model has no dynamic input"):
        build_engine(save(conv(), tmp_path), tmp_path / "e", options=options)
