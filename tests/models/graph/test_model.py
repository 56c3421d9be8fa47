"""A model in memory: its folder, its opset, forks of its own, and a folder for offloaded weights that goes with it."""

from pathlib import Path

import onnx
import pytest
from onnx import helper
from support.small import conv_model

from qdqtool.models.graph.model import Model, opset_version
from qdqtool.models.payload import Payload


def importing(*imports):
    return onnx.ModelProto(opset_import=[helper.make_opsetid(domain, version) for domain, version in imports])


def test_external_locations_are_relative_to_the_folder_of_the_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert Model(conv_model(), Path("a/b/m.onnx")).folder == Path("a/b")
    assert Model(conv_model()).folder == tmp_path


@pytest.mark.parametrize(
    ("imports", "version"),
    [([("", 17)], 17), ([("ai.onnx", 13)], 13), ([("com.microsoft", 1), ("", 11)], 11), ([("my", 4)], 1), ([], 1)],
)
def test_the_default_domain_has_two_names_and_is_version_1_when_not_imported(imports, version):
    assert Model(importing(*imports)).default_opset() == version
    assert opset_version(importing(*imports), "ai.onnx") == version


def test_other_domains_have_their_own_version():
    proto = importing(("", 17), ("com.microsoft", 2))
    assert [opset_version(proto, domain) for domain in ("com.microsoft", "my")] == [2, 1]
    assert opset_version(onnx.FunctionProto(opset_import=proto.opset_import), "com.microsoft") == 2


def test_payloads_that_a_fork_gets_are_not_in_the_model_it_came_from():
    model = Model(conv_model(), Path("m.onnx"), {"a": Payload(1, lambda: b"a")}, stored_outside=True)
    fork = model.fork()
    fork.payloads["b"] = Payload(1, lambda: b"b")
    assert (list(model.payloads), list(fork.payloads)) == (["a"], ["a", "b"])
    assert fork.proto is model.proto
    assert (fork.path, fork.stored_outside) == (model.path, True)
