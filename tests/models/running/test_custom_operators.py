import hashlib
import itertools
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper
from support import custom_ops
from support.custom_ops import between, in_a_body, in_a_function, library, stand_in

from qdqtool.errors import CapabilityError, QdqError, UsageError
from qdqtool.models.graph.model import Model
from qdqtool.models.report import CustomLibrary
from qdqtool.models.running.custom_operators import CustomOperators, active, named_operators, require_libraries
from qdqtool.models.running.ort_cpu import Session, reference
from qdqtool.numerics.cores import on_all_cores, side_by_side

X = {"x": np.random.default_rng(8).normal(size=(4, 16)).astype(np.float32)}


def output(proto: onnx.ModelProto) -> np.ndarray:
    with Session(Model(proto)) as session:
        return session.run(X)["y"]


def weight(proto: onnx.ModelProto, name: str) -> np.ndarray:
    return onnx.numpy_helper.to_array(next(each for each in proto.graph.initializer if each.name == name))


@pytest.mark.parametrize("make", [between, in_a_body, in_a_function])
def test_a_library_runs_its_operators_wherever_they_are_and_only_in_its_block(make) -> None:
    proto = make()
    for _ in range(2):
        with pytest.raises(CapabilityError, match=r"operator ai\.onnx\.contrib::NegPos of node 'custom'") as caught:
            output(proto)
        assert "--ort-custom-ops LIB" in str(caught.value.hint)
        assert "--stand-in FILE.onnx" in str(caught.value.hint)
        with named_operators([library()]):
            assert output(proto).shape == (4, 16)


def test_the_values_are_those_of_the_operator_and_the_digest_is_recorded() -> None:
    proto = between()
    with named_operators([library(), library()]):
        found, used = output(proto), reference(Model(proto)).custom_ops
    negative = np.minimum(X["x"] @ weight(proto, "w1"), 0)
    expected = np.maximum(negative @ weight(proto, "w2"), 0) @ weight(proto, "w3")
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    assert [each.sha256 for each in used] == [hashlib.sha256(library().read_bytes()).hexdigest()]
    assert reference(Model(proto)).custom_ops == ()


def test_work_in_threads_has_the_operators_of_its_caller() -> None:
    proto = between()
    with named_operators([library()]):
        on_all_cores(lambda _: output(proto), range(3))
        assert len([*side_by_side(lambda _: output(proto), range(3))]) == 3
    for run in (on_all_cores, lambda work, parts: list(side_by_side(work, parts))):
        with pytest.raises(CapabilityError, match="NegPos"):
            run(lambda _: output(proto), range(3))


def test_two_threads_with_different_operators_do_not_mix(tmp_path: Path) -> None:
    proto, both = between("Scale", "acme", ("b",)), Barrier(2)
    files = [
        stand_in(tmp_path / f"{n}.onnx", "Scale", nodes=f"k = Constant <value_float={n}.0> () b = Mul (a, k)")
        for n in (2, 3)
    ]

    def run(file: Path) -> np.ndarray:
        with named_operators(stand_in=file):
            both.wait(30)
            found = output(proto)
            both.wait(30)
        return found

    with ThreadPoolExecutor(2) as pool:
        two, three = pool.map(run, files)
    np.testing.assert_allclose(three, two * 1.5, rtol=1e-4, atol=1e-4)
    assert active() == CustomOperators()


def test_nothing_registers_a_library_that_is_not_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model is data: its metadata, which ONNX Runtime reads for options of the session, loads nothing."""
    loaded: list[str] = []
    monkeypatch.setattr(
        onnxruntime.SessionOptions, "register_custom_ops_library", lambda _, path: loaded.append(path), raising=False
    )
    proto = between()
    for key in ("ort-custom-ops", "ort_custom_ops", "ort_config", "qdqtool.preparation"):
        proto.metadata_props.add(key=key, value=str(library()))
    with pytest.raises(CapabilityError):
        output(proto)
    assert loaded == []


def test_what_is_no_library_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "text.so").write_text("no library", encoding="utf-8")
    shutil.copy(library(), tmp_path / "again.so")
    for paths, message in (
        ([tmp_path / "absent.so"], "no such file"),
        ([tmp_path], "not a file"),
        ([tmp_path / "text.so"], "cannot load the library"),
        ([library(), tmp_path / "again.so"], "Domain already set"),
    ):
        with pytest.raises(UsageError, match=message) as caught, named_operators(paths):
            pytest.fail("the block runs")
        assert "\n" not in caught.value.message
    assert active() == CustomOperators()


def test_a_worker_needs_the_same_library() -> None:
    same = CustomLibrary(library=str(library()), sha256=hashlib.sha256(library().read_bytes()).hexdigest())
    require_libraries(CustomOperators((same,)))
    with pytest.raises(CapabilityError, match="not that of the client"):
        require_libraries(CustomOperators((CustomLibrary(library=same.library, sha256="0"),)))


@pytest.mark.parametrize("domain", ["acme", ""])
def test_a_stand_in_runs_in_place_of_an_unknown_operator(domain: str, tmp_path: Path) -> None:
    proto, plain = between("Twice", domain, ("b",)), between("Twice", domain, ("b",))
    with pytest.raises(CapabilityError, match=f"operator {domain or 'ai.onnx'}::Twice of node 'custom'"):
        output(proto)
    with named_operators(stand_in=stand_in(tmp_path / "f.onnx", domain=domain)):
        found = output(proto)
    expected = np.maximum(2 * X["x"] @ weight(proto, "w1") @ weight(proto, "w2"), 0) @ weight(proto, "w3")
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    assert proto == plain


def test_a_stand_in_may_have_the_name_of_a_plugin_whose_schema_onnxruntime_has(tmp_path: Path) -> None:
    """ONNX Runtime 1.31.1 knows EfficientNMS_TRT, with other inputs, and has no kernel for it on the CPU."""
    boxes = custom_ops.model([helper.make_node("MatMul", ["x", "w1"], ["y"])], "w1")
    settings = {"background_class": -1, "box_coding": 0, "iou_threshold": 0.5, "max_output_boxes": 10}
    settings |= {"score_activation": 0, "score_threshold": 0.2, "plugin_version": "1"}
    nms = helper.make_node("EfficientNMS_TRT", ["y", "y"], ["n", "b", "s", "c"], name="nms", **settings)
    boxes.graph.node.append(nms)
    with pytest.raises(CapabilityError, match=r"does not know operator ai\.onnx::EfficientNMS_TRT of node 'nms'"):
        output(boxes)
    with named_operators(stand_in=stand_in(tmp_path / "f.onnx", "EfficientNMS_TRT", "")):
        assert output(between("EfficientNMS_TRT", "", ("b",))).shape == (4, 16)


def test_a_local_function_of_the_model_is_not_replaced(tmp_path: Path) -> None:
    body = list(onnx.parser.parse_graph("g () => () { b = Neg (a) }").node)
    function = helper.make_function("acme", "Twice", ["a"], ["b"], body, [helper.make_opsetid("", 19)])
    proto = between("Twice", "acme", ("b",))
    proto.functions.append(function)
    alone = output(proto)
    with named_operators(stand_in=stand_in(tmp_path / "f.onnx")):
        assert np.array_equal(output(proto), alone)


def test_a_file_without_a_fitting_function_is_refused(tmp_path: Path) -> None:
    onnx.save(between(), tmp_path / "none.onnx")
    stand_in(tmp_path / "relu.onnx", "Relu", "")
    with pytest.raises(UsageError, match="has no local function"), named_operators(stand_in=tmp_path / "none.onnx"):
        pytest.fail("the block runs")
    with (
        pytest.raises(UsageError, match="Relu is an operator of ONNX"),
        named_operators(stand_in=tmp_path / "relu.onnx"),
    ):
        pytest.fail("the block runs")
    with pytest.raises(QdqError, match="no such file"), named_operators(stand_in=tmp_path / "absent.onnx"):
        pytest.fail("the block runs")


def test_calls_of_stand_ins_that_multiply_are_refused(tmp_path: Path) -> None:
    """Ten calls in each of six functions: a million nodes from a file of 5 kB."""
    opsets = [helper.make_opsetid("", 19), helper.make_opsetid("acme", 1)]
    functions = [helper.make_function("acme", "F6", ["a"], ["b"], [helper.make_node("Neg", ["a"], ["b"])], opsets)]
    for depth in range(6):
        names = ["a", *(f"t{n}" for n in range(9)), "b"]
        calls = [
            helper.make_node(f"F{depth + 1}", [one], [two], domain="acme") for one, two in itertools.pairwise(names)
        ]
        functions.append(helper.make_function("acme", f"F{depth}", ["a"], ["b"], calls, opsets))
    onnx.save(helper.make_model(helper.make_graph([], "none", [], []), functions=functions), tmp_path / "f.onnx")
    proto = between("F0", "acme", ("b",))
    with named_operators(stand_in=tmp_path / "f.onnx"), pytest.raises(QdqError, match="too many nodes"):
        output(proto)


def test_an_error_with_an_operator_that_onnxruntime_has_keeps_its_words() -> None:
    proto = custom_ops.model([helper.make_node("MatMul", ["x", "w1"], ["y"], domain="com.microsoft")], "w1")
    with pytest.raises(QdqError) as caught:
        output(proto)
    assert "--ort-custom-ops" not in str(caught.value.hint)
