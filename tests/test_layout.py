"""Laws of the layout, read from the source: packages, sizes of modules, private names, where tests stand.

The order of the packages is the import contract's (``make lint``).
"""

import ast
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import PurePosixPath as Place

import pytest
from support.paths import ROOT

LONGEST_MODULE = 320
LONGEST_JOB = 200
LISTS = {"jobs/options"}
"""Modules of declarations, which decide nothing."""
"""A job is orchestration: what is longer decides something that another package should decide."""
LARGEST_SUBPACKAGE = 4500
LARGE_SUBPACKAGES = {"jobs", "linting/rules", "models/graph"}
"""``jobs`` has a module for each command, ``rules`` for each fault, ``graph`` all that is known of ONNX files."""
MOST_PACKAGES, MOST_MODULES = 12, 6
"""What ``ls qdqtool`` shows: packages, and modules beside them (``__main__`` is one)."""
MOST_FLAT = 24
"""Modules in a folder; more are a list that nobody reads."""
FLAT = {
    "accuracy/checking": "the measures of one check",
    "cli/commands": "a command each",
    "jobs": "a command each",
    "linting/repair/forms": "a form each",
    "linting/rules": "a rule each",
    "models/ops": "an operator each",
    "numerics": "a formula each",
}
"""Folders that may have more, since each of their modules is one of a kind."""
ELSEWHERE = {
    "acceptance": "whole programs on models that others made",
    "benchmarks": "the scripts in benchmarks/",
    "integrations": "pre-commit and the GitHub action",
    "properties": "every job on random models",
    "sample_models": "the scripts in sample_models/",
    "support": "what tests themselves stand on",
    "tools": "the scripts in tools/",
}
"""Folders of tests for what is outside the package."""
NO_MODULE = {
    "engines/gpu/test_contract": "every call of the package against the packages that are installed",
    "numerics/test_two_level": "scales of scales through affine, derive and search, against onnx",
    "reports/page/test_browser": "the page in Chromium",
    "quantization/planning/modes/test_number_formats": "every mode against every target",
    "quantization/planning/modes/test_weight_only": "the weight-only modes alike",
    "quantization/planning/placement/test_attention": "attention through every module of placement",
    "quantization/planning/placement/test_engine_facts": "what TensorRT for RTX does, which placement rests on",
    "quantization/planning/placement/test_engines": "what TensorRT for RTX makes of placements",
    "quantization/planning/placement/test_guide": "docs/explanation/placement.md",
    "quantization/planning/placement/test_left_in_float": "reasons of every module of placement",
    "quantization/planning/placement/test_networks": "placement on whole networks",
    "quantization/planning/placement/test_precision": "plans against the precision that engines have",
    "quantization/planning/placement/test_tiny_layers": "placement and the linter agree",
    "linting/repair/forms/test_exporters": "models of exporters through every form and fix",
    "linting/repair/test_damaged": "every fix on damaged models",
    "linting/rules/test_catalogue": "laws of every rule",
    "linting/rules/test_corpus": "every rule against parser, builder and ONNX Runtime",
    "linting/rules/test_damage": "every rule against the numbers",
    "linting/rules/test_damaged_examples": "every rule on its examples, damaged",
    "linting/rules/test_mutations": "every rule on damaged models",
    "linting/rules/test_reports": "what every rule says, word for word",
    "linting/rules/test_side_by_side": "every rule on several models in one",
    "linting/rules/test_truth": "every rule against its own examples",
    "reports/findings/test_validate": "every format of `validate` alike",
    "reports/schemas/test_stability": "names that scripts rely on",
    "test_layout": "the layout",
    "test_public_api": "every __all__",
    "models/transforms/half/test_random_graphs": "conversion to float16 as a whole",
}
"""Tests of more than one module, with what they are of. A test named after its folder is such a test too."""

IMPORT = re.compile(r"^[ \t]*((?:from|import) qdqtool\b(?:[^\n(]*\([^)]*\)|[^\n]*))", re.MULTILINE)
"""Statements that import of the package: they are parsed, the rest of a module is not, which would take seconds."""


@cache
def sources(folder: str) -> Mapping[Place, str]:
    """Every Python file below a folder of the project, by its path in that folder."""
    root = ROOT / folder
    return {Place(path.relative_to(root).as_posix()): path.read_text() for path in sorted(root.rglob("*.py"))}


def test_nothing_private_is_imported_from_elsewhere():
    assert list(borrowed(sources("qdqtool"))) == []


def test_a_listing_of_the_package_fits_on_a_screen():
    package = sources("qdqtool")
    modules = {path.stem for path in package if len(path.parts) == 1} - {"__init__"}
    assert len({path.parts[0] for path in package if len(path.parts) > 1}) <= MOST_PACKAGES
    assert len(modules | {"__init__"}) <= MOST_MODULES


def test_modules_and_packages_are_of_a_size_to_read():
    package = sources("qdqtool")
    assert len(package) > 300
    assert [str(path) for path, text in package.items() if len(text.splitlines()) > LONGEST_MODULE] == []
    sizes = subpackage_sizes(package)
    assert sizes.keys() >= LARGE_SUBPACKAGES
    assert {name: size for name, size in sizes.items() if size > LARGEST_SUBPACKAGE}.keys() <= LARGE_SUBPACKAGES
    flat = Counter(str(path.parent) for path in package if path.name != "__init__.py")
    assert {name for name, count in flat.items() if count > MOST_FLAT} <= FLAT.keys()


def test_jobs_are_short():
    jobs = {path: text for path, text in sources("qdqtool").items() if path.parts[:-1] == ("jobs",)}
    assert len(jobs) > 10
    long = {str(path.with_suffix("")) for path, text in jobs.items() if len(text.splitlines()) > LONGEST_JOB}
    assert long == LISTS


def test_every_module_says_in_one_sentence_what_it_is():
    assert list(without_summary(sources("qdqtool"))) == []


def test_every_test_stands_where_its_module_does():
    assert list(misplaced(sources("tests"), sources("qdqtool"))) == []


def test_the_list_of_tests_without_a_module_is_not_longer_than_need_be():
    tests, package = sources("tests"), sources("qdqtool")
    there = {str(path.with_suffix("")) for path in tests}
    assert NO_MODULE.keys() - there == set()
    assert [name for name in NO_MODULE if has_module(Place(name), package)] == []
    assert ELSEWHERE.keys() - {path.parts[0] for path in tests} == set()


@pytest.mark.parametrize(
    ("path", "line", "found"),
    [
        ("a/b.py", "from qdqtool.c._d import e", "qdqtool.c._d.e"),
        ("a/b.py", "from qdqtool.c import _d", "qdqtool.c._d"),
        ("a/b.py", "import qdqtool.c._d", "qdqtool.c._d"),
        ("a/b/e.py", "from qdqtool.a import _d", "qdqtool.a._d"),
        ("a/b.py", "def f():\n    from qdqtool.a.c import _d", "qdqtool.a.c._d"),
        ("a/b.py", "from qdqtool.a.c import (\n    d,  # why\n    _e,\n)", "qdqtool.a.c._e"),
        ("b.py", "from qdqtool.a.c import d, _e", "qdqtool.a.c._e"),
        ("a/b.py", "from qdqtool.a import _d", None),
        ("a/__init__.py", "from qdqtool.a._c import d", None),
        ("a/b.py", "from qdqtool.c import __version__", None),
        ("a/b.py", "from numpy import _globals", None),
    ],
)
def test_what_is_borrowed_is_found(path: str, line: str, found: str | None):
    package = {Place(path): line, Place("a/_d.py"): "", Place("c/_d.py"): "", Place("a/_c.py"): ""}
    assert list(borrowed(package)) == ([f"{path}: {found}"] if found else [])


def test_sizes_and_summaries_are_measured():
    package = {Place("a/b.py"): "1\n2\n", Place("a/c/d.py"): "3\n", Place("e.py"): '"""No end"""'}
    assert subpackage_sizes(package) == {"a": 2, "a/c": 1}
    assert list(without_summary(package)) == ["a/b.py", "a/c/d.py", "e.py"]
    assert list(without_summary({Place("e.py"): '"""An end.\n\nMore\n"""'})) == []


@pytest.mark.parametrize(
    ("test", "stands"),
    [
        ("a/test_b.py", True),
        ("a/test_b_on_float16.py", True),
        ("a/test_private.py", True),
        ("a/test_c.py", True),
        ("a/c/test_c.py", True),
        ("test_main.py", True),
        ("a/test_d.py", False),
        ("a/c/test_b.py", False),
        ("test_b.py", False),
        ("a/e/test_b.py", False),
        ("a/test_bee.py", False),
    ],
)
def test_a_test_out_of_place_is_found(test: str, stands: bool):
    package = dict.fromkeys(map(Place, ("a/b.py", "a/_private.py", "a/c/__init__.py", "a/c/d.py", "__main__.py")), "")
    assert list(misplaced({Place(test): ""}, package)) == ([] if stands else [test])


def borrowed(package: Mapping[Place, str]) -> Iterator[str]:
    """Imports of a ``_module`` from another folder, and of a ``_name`` from another module."""
    modules = {_dotted(path) for path in package}
    for path, text in package.items():
        for target in _imports(text):
            parts = target.split(".")
            hidden = [at for at, part in enumerate(parts) if part.startswith("_") and not part.endswith("__")]
            folder = ".".join(("qdqtool", *path.parts[:-1]))
            own = [at for at in hidden if ".".join(parts[: at + 1]) in modules and ".".join(parts[:at]) == folder]
            if len(hidden) > len(own):
                yield f"{path}: {target}"


def _imports(text: str) -> Iterator[str]:
    """Every name that a module imports of the package, dotted: a module, or a module and a name in it."""
    for statement in IMPORT.findall(text):
        (node,) = ast.parse(statement).body
        names = [name.name for name in getattr(node, "names", ())]
        yield from (f"{node.module}.{name}" for name in names) if isinstance(node, ast.ImportFrom) else names


def _dotted(path: Place) -> str:
    return ".".join(("qdqtool", *path.with_suffix("").parts)).removesuffix(".__init__")


def subpackage_sizes(package: Mapping[Place, str]) -> Counter[str]:
    """Lines of each subpackage, with all that is below it, and of the modules that stand beside the subpackages."""
    sizes: Counter[str] = Counter()
    for path, text in package.items():
        if len(path.parts) > 1:
            sizes["/".join(path.parts[:-1][:2])] += len(text.splitlines())
    return sizes


def without_summary(package: Mapping[Place, str]) -> Iterator[str]:
    """Modules whose text does not begin with a line that is a sentence."""
    for path, text in package.items():
        first = text.partition("\n")[0].removeprefix("r")
        if not (first.startswith('"""') and first.removesuffix('"""').endswith(".")):
            yield str(path)


def misplaced(tests: Mapping[Place, str], package: Mapping[Place, str]) -> Iterator[str]:
    """Tests that have no module where they stand and no reason to have none."""
    for path in tests:
        if path.name.startswith("test_") and path.parts[0] not in ELSEWHERE:
            name = path.with_suffix("")
            if not has_module(name, package) and str(name) not in NO_MODULE:
                yield str(path)


def has_module(test: Place, package: Mapping[Place, str]) -> bool:
    """Whether a test has a module, or a folder, of its own name.

    ``test_insert_formats`` is a part of ``test_insert``; a test that is named after its own folder has laws of
    everything in it.
    """
    name, folder = test.name.removeprefix("test_"), test.parent
    if name == folder.name:
        return any(path.parent == folder for path in package)
    words = name.split("_")
    heads = ["_".join(words[:count]) for count in range(1, len(words) + 1)]
    here = {path.stem.strip("_") for path in package if path.parent == folder}
    folders = {path.parent.name for path in package if path.parent.parent == folder}
    return not here.isdisjoint(heads) or name in folders
