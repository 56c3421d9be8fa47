"""Errors that users cause: their exit codes are documented, and they carry a message and the way out."""

import re

import pytest

from qdqtool import errors
from qdqtool.errors import plural

DOCUMENTED = {
    name: int(code) for name, code in re.findall(r"^\W*(\w+Error) +(\d)  ", errors.__doc__ or "", re.MULTILINE)
}
PUBLIC = [getattr(errors, name) for name in errors.__all__]


@pytest.mark.parametrize("error", [error for error in PUBLIC if error is not errors.QdqError])
def test_exit_codes_are_those_that_the_module_documents(error):
    assert error.exit_code == DOCUMENTED[error.__name__]
    assert 1 <= error.exit_code <= 4, "0 is success, 5 a bug of ours"


@pytest.mark.parametrize("error", PUBLIC)
def test_every_error_has_a_message_a_hint_and_one_base(error):
    raised = error("scale is 0", hint="give a positive scale")
    assert isinstance(raised, errors.QdqError)
    assert (str(raised), raised.message, raised.hint) == ("scale is 0", "scale is 0", "give a positive scale")
    assert error("scale is 0").hint is None


def test_illegal_arguments_of_python_calls_are_value_errors_too():
    with pytest.raises(ValueError, match="axis is 4"):
        raise errors.ArgumentError("axis is 4")
    assert issubclass(errors.ArgumentError, errors.UsageError)


def test_other_errors_are_no_value_errors():
    assert [error for error in PUBLIC if issubclass(error, ValueError)] == [errors.ArgumentError]


@pytest.mark.parametrize(("count", "text"), [(0, "0 nodes"), (1, "1 node"), (2, "2 nodes")])
def test_a_noun_has_its_number(count: int, text: str):
    assert plural(count, "node") == text
