"""Options: each is declared once, as a field of a light dataclass.

Four things are made from the declaration: the option of the command line (:mod:`qdqtool.cli.declared`), the typed
keyword of Python (:mod:`qdqtool.api.keywords`), the key of a recipe, and the value in a request
(:mod:`qdqtool.jobs.request`). A module with declarations is read before a command runs, so it imports nothing heavy.
"""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar, cast

T = TypeVar("T")

Values = dict[str, Any]
"""Values of options by name. Each function that makes a request removes the values that it uses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """Which values an option has, and how they are written.

    Attributes:
        form: Form on the command line. A ``flag`` has no value, a ``switch`` also has a ``--no-`` form, ``output`` is a
            file to write, ``binary`` is such a file that is never printed to a terminal, and ``operators`` is a file
            with operators, which only the command line and Python may name.
        keyword: The type of the Python keyword, with the names of :mod:`qdqtool.api.keywords`.
        metavar: The placeholder for the value in help texts, such as FILE.
        read: Converts a word of the command line to the value; for a repeated option, all words. The second argument is
            the name of the option, for messages. None if the word itself is the value.
        take: Converts a Python keyword, whose type was checked, to the value. None if the keyword itself is the value.
        words: The value for each legal word.
        minimum: The smallest legal integer; a ``number`` must be greater.
        is_repeated: Whether the option may be given several times.
        offers: Source of shell completions: a function of :mod:`qdqtool.cli.completion`, or a folder of plug-in units.
        takes_commas: Whether a word may hold several values, separated by commas.
    """

    form: Literal["flag", "switch", "integer", "number", "text", "choice", "file", "output", "binary", "operators"]
    keyword: str
    metavar: str | None = None
    read: Callable[[Any, str], Any] | None = None
    take: Callable[[Any], Any] | None = None
    words: Mapping[str, Any] = field(default_factory=dict)
    minimum: int | None = None
    is_repeated: bool = False
    offers: str | None = None
    takes_commas: bool = False

    def word(self, value: Any) -> Any:
        """Return a value as the command line writes it."""
        return next((word for word, known in self.words.items() if known == value), value)


FLAG = Kind(form="flag", keyword="bool")
SWITCH = Kind(form="switch", keyword="bool")


def integer(metavar: str = "N", minimum: int | None = None) -> Kind:
    """Return the kind for integers of at least ``minimum``."""
    return Kind(form="integer", keyword="int", metavar=metavar, minimum=minimum)


def number(metavar: str, minimum: int | None = None) -> Kind:
    """Return the kind for numbers; if a minimum is given, they must be greater."""
    return Kind(form="number", keyword="float", metavar=metavar, minimum=minimum)


def text(metavar: str, offers: str | None = None, keyword: str = "str") -> Kind:
    """Return the kind for text that the command line does not check."""
    return Kind(form="text", keyword=keyword, metavar=metavar, offers=offers)


def choice(*words: str, values: Iterable[Any] | None = None) -> Kind:
    """Return the kind for a choice from a few words.

    Args:
        words: The words.
        values: The value for each word; None if the words are the values.
    """
    legal = ", ".join(f'"{word}"' for word in words)
    known = dict(zip(words, words if values is None else values, strict=True))
    return Kind(form="choice", keyword=f"Literal[{legal}]", words=known)


def file(metavar: str, keyword: str = "FileName") -> Kind:
    """Return the kind for files and folders that are read."""
    return Kind(form="file", keyword=keyword, metavar=metavar)


def output(metavar: str, *, is_binary: bool = False) -> Kind:
    """Return the kind for files that are written."""
    return Kind(form="binary" if is_binary else "output", keyword="FileName", metavar=metavar)


def listed(metavar: str, offers: str | None = None) -> Kind:
    """Return the kind for options that may be repeated, each with one text."""
    return Kind(form="text", keyword="Sequence[str]", metavar=metavar, offers=offers, is_repeated=True, take=tuple)


def comma_separated(metavar: str, offers: str | None = None) -> Kind:
    """Return the kind for lists of words, separated by commas or given by repeating the option."""
    return dataclasses.replace(listed(metavar, offers), read=_split, takes_commas=True)


def _split(words: Iterable[str], _option: str) -> tuple[str, ...]:
    return tuple(word.strip() for each in words for word in each.split(",") if word.strip())


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """A declared option.

    Attributes:
        name: The name of the Python keyword; the command line has ``-`` in place of ``_``.
        default: The value if the option is not given.
        text: The help text, or a function that makes it when it is shown.
        kind: The values of the option.
        flags: Spellings on the command line, if they differ from the name.
        section: The heading above the option in help texts.
        only: ``command line`` or ``python`` if the option exists only there; None if it exists in both.
    """

    name: str
    default: Any
    text: str | Callable[[], str]
    kind: Kind
    section: str
    flags: tuple[str, ...] = ()
    only: Literal["command line", "python"] | None = None

    @property
    def flag(self) -> str:
        """The spelling on the command line, for messages."""
        return self.flags[0] if self.flags else f"--{self.name.replace('_', '-')}"


def option(  # noqa: PLR0913 -- an option is declared in one call
    default: T,
    text: str | Callable[[], str],
    kind: Kind = FLAG,
    *,
    section: str = "",
    name: str = "",
    flags: tuple[str, ...] = (),
    only: Literal["command line", "python"] | None = None,
) -> T:
    """Declare an option as a field of a dataclass; the arguments are the attributes of :class:`Option`.

    The field has the name of the option unless ``name`` gives another one. For a ``dict``, each object gets a new one.
    """
    declaration = Option(name=name, default=default, text=text, kind=kind, section=section, flags=flags, only=only)
    metadata = {_KEY: declaration}
    if isinstance(default, dict):
        return cast("T", field(default_factory=dict, metadata=metadata))
    return field(default=default, metadata=metadata)


_KEY = "option"


def declared(kind: type) -> Iterator[Option]:
    """Yield the options of a class, and of the classes that its fields have as types."""
    for each in dataclasses.fields(kind):
        found: Option | None = each.metadata.get(_KEY)
        if found is not None:
            yield found if found.name else dataclasses.replace(found, name=each.name)
        elif isinstance(each.default_factory, type) and dataclasses.is_dataclass(each.default_factory):
            yield from declared(each.default_factory)


@dataclass(frozen=True, slots=True)
class Speech:
    """How messages name options.

    Attributes:
        is_python: Whether messages name Python keywords; otherwise they name options of the command line.
    """

    is_python: bool

    def __call__(self, name: str) -> str:
        """Return the spelling of an option."""
        return name if self.is_python else f"--{name.replace('_', '-')}"

    def either(self, command_line: str, python: str) -> str:
        """Return one of two texts, such as a hint with a command or with Python."""
        return python if self.is_python else command_line


COMMAND_LINE = Speech(is_python=False)
PYTHON = Speech(is_python=True)


def read(options: Iterable[Option], given: Mapping[str, Any], said: Speech) -> Values:
    """Return the values of the options that are given.

    Args:
        options: The options.
        given: Words of the command line, or keywords, by name. None, and on the command line also an empty tuple, means
            that the option was not given.
        said: Whether the values come from the command line or from Python.

    Raises:
        UsageError: A word cannot be read.
    """
    found = {}
    for each in options:
        value = given.get(each.name)
        if value is None or (isinstance(value, tuple) and not value and not said.is_python):
            continue
        if each.kind.words:
            value = each.kind.words[value]
        elif said.is_python and each.kind.take is not None:
            value = each.kind.take(value)
        elif not said.is_python and each.kind.read is not None:
            value = each.kind.read(value, each.flag)
        found[each.name] = value
    return found


def build(kind: type[T], values: Values, **known: Any) -> T:
    """Return an object of a class of options, with the objects of the classes inside it.

    Args:
        kind: The class. A field gets the value with the name of its option, or with its own name.
        values: Values by name; the used values are removed.
        known: Values of fields that do not come from options, by field name.
    """
    for each in dataclasses.fields(kind):  # type: ignore[arg-type]
        found: Option | None = each.metadata.get(_KEY)
        name = found.name if found is not None and found.name else each.name
        if each.name in known:
            continue
        if name in values:
            known[each.name] = values.pop(name)
        elif isinstance(each.default_factory, type) and dataclasses.is_dataclass(each.default_factory):
            known[each.name] = build(each.default_factory, values)
    return kind(**known)
