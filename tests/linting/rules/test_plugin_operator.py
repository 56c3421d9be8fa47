"""QT419: what is declared as a plugin is used, and whatever else ONNX does not have is reported."""

import pytest
from support.one_rule import findings, messages
from support.plugin_models import swirl_model

from qdqtool.models.graph.io.metadata import with_plugins
from qdqtool.models.graph.model import Model
from qdqtool.models.plugins import parse_plugin_ops

UNTYPED = "the plugin acme::Swirl has outputs of unknown type or shape: little is checked behind it"


def declared(*words: str, **options):
    """A model of one Swirl, or of ``calls``, with a note of these plugin operators."""
    return with_plugins(Model(swirl_model(*options.pop("calls", ()), **options)), parse_plugin_ops(words)).proto


@pytest.mark.parametrize(
    ("words", "options", "expected"),
    [
        (
            (),
            {"stand_in": False},
            [("warning", "operator acme::Swirl is not one of ONNX: TensorRT needs a plugin with its name")],
        ),
        ((), {}, []),
        ((), {"calls": ("EfficientNMS_TRT",), "stand_in": False}, []),
        (("acme::Swirl",), {}, []),
        (("acme::Swirl=same-as-input-0",), {"stand_in": False}, []),
        (("acme::Swirl",), {"stand_in": False}, [("warning", UNTYPED)]),
        # The index of an input that the nodes do not have.
        (("acme::Swirl=same-as-input-7",), {"stand_in": False}, [("warning", UNTYPED)]),
        (
            ("acme::Swrl",),
            {"stand_in": False},
            [
                (
                    "warning",
                    "acme::Swrl is declared as a plugin, but no node has this operator; did you mean 'acme::Swirl'?",
                ),
                ("error", "operator acme::Swirl is neither an operator of ONNX nor declared as a plugin"),
            ],
        ),
        # A second, misspelled operator beside the declared one; one whose domain is missing; one of ONNX.
        (
            ("acme::Swirl=same-as-input-0",),
            {"stand_in": False, "calls": ("Swirl", "Swril")},
            [("error", "operator acme::Swril is neither an operator of ONNX nor declared as a plugin")],
        ),
        (("acme::Swirl=same-as-input-0",), {"calls": ("Swirl", "Relu"), "stand_in": False}, []),
    ],
)
def test_a_misspelled_operator_stays_red(words, options, expected):
    found = findings("QT419", declared(*words, **options))
    assert [(each.severity, each.message) for each in found] == expected


def test_without_a_domain_it_is_another_operator():
    proto = declared("acme::Swirl", stand_in=False, domain="")
    assert "operator ::Swirl is neither an operator of ONNX nor declared as a plugin" in messages("QT419", proto)


def test_an_operator_that_every_release_has_is_no_plugin():
    proto = declared("::Conv=same-as-input-0", calls=("Conv",), stand_in=False, domain="")
    found = {(each.severity, each.message) for each in findings("QT419", proto)}
    assert found == {("error", "::Conv is declared as a plugin, and TensorRT always runs its own Conv")}


def test_rules_about_unknown_operators_leave_a_plugin_alone():
    cases = (("MatMulNBits", "QT403"), ("GroupQueryAttention", "QT420"), ("RMSNormalization", "QT408"))
    for name, code in cases:
        domain = "" if code == "QT408" else "com.microsoft"
        target = "tensorrt-10.14" if code == "QT408" else "tensorrt"
        plain = swirl_model(name, stand_in=False, domain=domain)
        noted = declared(f"{domain}::{name}", calls=(name,), stand_in=False, domain=domain)
        assert (len(messages(code, plain, target)), messages(code, noted, target)) == (1, [])
    # ONNX Runtime has no plugins of TensorRT.
    noted = declared("::Swirl", stand_in=False, domain="")
    assert len(messages("QT411", noted, "ort-cpu")) == 1


def test_what_stands_in_for_a_plugin_is_judged_only_where_it_runs():
    body = swirl_model()
    body.functions[0].node[0].op_type = "QLinearSigmoid"
    noted = with_plugins(Model(body), parse_plugin_ops(["acme::Swirl"])).proto
    assert (len(messages("QT403", body)), messages("QT403", noted)) == (1, [])
    assert len(messages("QT411", noted, "ort-cpu")) == 1
