"""Plugin operators: how they are written, and the note of a model that has them."""

import onnx
import pytest
from support.plugin_models import swirl_model

from qdqtool.errors import UsageError
from qdqtool.models.graph.io.metadata import with_plugins
from qdqtool.models.graph.model import Model
from qdqtool.models.plugins import KEY, PluginOperator, parse_plugin_ops, plugin_operators, stand_in_paths


def test_an_operator_has_a_domain_and_may_have_a_rule():
    assert parse_plugin_ops(["acme::Swirl", "::Fold=same-as-input-2", "ai.onnx::Own"]) == (
        PluginOperator("acme", "Swirl"),
        PluginOperator("", "Fold", 2),
        PluginOperator("", "Own"),
    )


def test_what_is_written_is_read_again():
    words = ["acme::Swirl", "::Fold=same-as-input-2"]
    assert [*map(str, parse_plugin_ops(words))] == words


@pytest.mark.parametrize(
    "word",
    [
        "Swirl",
        "acme:Swirl",
        "acme.Swirl",
        "acme::",
        "acme::a::b",
        "acme::Swirl=input-0",
        "acme::Swirl=same-as-input-",
        "",
    ],
)
def test_another_form_is_refused_with_the_right_one(word):
    with pytest.raises(UsageError, match="does not name an operator with its domain") as caught:
        parse_plugin_ops([word], "--plugin-ops")
    assert caught.value.message.startswith(f"--plugin-ops '{word}'")
    assert "DOMAIN::NAME" in str(caught.value.hint)


def test_q_and_dq_are_no_plugins():
    with pytest.raises(UsageError, match="TensorRT has QuantizeLinear itself"):
        parse_plugin_ops(["acme::QuantizeLinear"])


def test_one_operator_is_declared_once():
    with pytest.raises(UsageError, match="names acme::Swirl twice"):
        parse_plugin_ops(["acme::Swirl", "acme::Swirl=same-as-input-0"])


def test_a_declaration_joins_and_replaces_the_note():
    first = with_plugins(Model(swirl_model()), parse_plugin_ops(["acme::Swirl", "acme::Fold"]))
    model = with_plugins(first, parse_plugin_ops(["acme::Swirl=same-as-input-0"]))
    note = next(each.value for each in model.proto.metadata_props if each.key == KEY)
    assert note == "acme::Fold\nacme::Swirl=same-as-input-0"
    assert plugin_operators(model.proto)["acme", "Swirl"].source == 0
    assert stand_in_paths(model.proto) == {("acme::Fold",), ("acme::Swirl",)}
    assert with_plugins(model, ()) is model


def test_a_hostile_note_declares_no_q_and_nothing_malformed():
    proto = swirl_model()
    onnx.helper.set_model_props(proto, {KEY: "::QuantizeLinear\nnonsense\nacme::Swirl\n"})
    assert [*plugin_operators(proto)] == [("acme", "Swirl")]
