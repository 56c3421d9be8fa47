"""``qdqtool explain``: its argument and its mistakes."""

from click.testing import CliRunner

from qdqtool.cli.explain import command


def test_a_rule_is_found_by_code_and_by_name():
    by_code, by_name = (CliRunner().invoke(command, [word]) for word in ("QP101", "parameters.scale-value"))

    assert by_code.exit_code == 0
    assert by_code.output.startswith("QP101 parameters.scale-value (since ")
    assert by_name.output == by_code.output


def test_a_missing_code_is_wrong_usage():
    done = CliRunner().invoke(command, [])

    assert done.exit_code == 2
    assert "Missing argument 'CODE'" in done.output
