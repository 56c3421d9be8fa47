"""Write every file in git that follows from code: ``make generated``.

To add one, add its function to ``GENERATORS``: it returns the text of each file by its path in the project.
``tests/tools/test_generated.py`` compares the files with what the functions return. Pages of rules are not in git:
``make docs`` writes them. Run with ``tests`` on the path: the schemas are made by ``tests/support/json_schemas.py``.
"""

import ast
import json
import re
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from support.json_schemas import schemas

from benchmarks.comparison import contestants, store, tables
from benchmarks.comparison.measured import Result
from qdqtool.api.declarations import keywords_of
from qdqtool.reports.markdown import formats, rules

ROOT = Path(__file__).resolve().parent.parent
ARCHITECTURE = "docs/developers/architecture.md"
SCHEMAS = "qdqtool/reports/schemas"
LAYERS = re.compile(r"(?<=<!-- layers: make generated writes this table -->\n).*?(?=<!-- end of layers -->)", re.DOTALL)
PEERS = re.compile(r"(?<=<!-- peers: make generated writes this table -->\n).*?(?=<!-- end of peers -->)", re.DOTALL)
NETWORKS = {
    "face_slim_320": "face detector, 320 x 240",
    "yunet_n_dynamic": "face detector with landmarks (YuNet)",
    "silero_vad_16k_op15": "voice detector with an LSTM (Silero)",
}
"""The networks of the README by their names in the results."""
KEYWORDS = "qdqtool/api/keywords.py"
KEYWORDS_HEAD = '''"""The keywords of each function. Generated from the options: ``make generated`` writes it."""

from collections.abc import Mapping, Sequence
from typing import Literal, TypedDict

from qdqtool.api.any_data import DataLike, FileName, Metric, Shapes, Values
'''
MAPPINGS = ("properties", "$defs")
"""Keys of a schema whose members get a line each."""
FUNCTIONS = {
    "build": "build_engine",
    "calibrate": "calibrate",
    "cast": "cast_model",
    "check": "check_model",
    "insert": "insert_plan",
    "quantize": "quantize_model",
    "run": "run_engine",
    "sensitivity": "measure_sensitivity",
    "strip": "strip_model",
    "convert": "convert",
}
"""The commands whose functions have keywords, and these functions."""
SHARED = {
    "Operator": ("calibrate", "cast", "check", "convert", "insert", "quantize", "sensitivity", "strip"),
    "Data": ("calibrate", "cast", "check", "convert", "quantize", "run", "sensitivity"),
    "Calibration": ("calibrate", "convert", "quantize", "sensitivity"),
    "Accuracy": ("convert", "quantize"),
    "Engine": ("build", "convert"),
    "Gate": ("check", "convert"),
}
"""Groups of commands; one class has the keywords that all commands of a group share. The largest groups come first."""
WITH_REPORTS = ("build", "check", "convert", "quantize", "sensitivity")
"""The commands whose functions have the keyword ``reports``."""


def schema_files() -> dict[str, str]:
    """Return the JSON Schemas, with one line for each property."""
    return {f"{SCHEMAS}/{name}.json": f"{compact(schema)}\n" for name, schema in schemas().items()}


def compact(schema: Mapping[str, Any], indent: str = "") -> str:
    """Return a schema as JSON on few lines: one for each property and each definition.

    Args:
        schema: The schema, or one that stands in it.
        indent: What the current line begins with.
    """
    parts = []
    for key, value in schema.items():
        if key in MAPPINGS and isinstance(value, dict):
            members = (f"{indent} {json.dumps(name)}: {compact(each, indent + ' ')}" for name, each in value.items())
            text = "{\n" + ",\n".join(members) + f"\n{indent}}}"
        else:
            text = json.dumps(value)
        parts.append(f"{json.dumps(key)}: {text}")
    return "{" + ", ".join(parts) + "}"


def layer_table() -> dict[str, str]:
    """Return the page of the architecture with the table of packages, in the order of the import contract."""
    rows = ["| package | what it does | subpackages, top down |", "|---|---|---|"]
    inner = {contract["name"]: contract["layers"] for contract in contracts() if contract["type"] == "layers"}
    names = [name for layer in next(iter(inner.values())) for name in layer.split(" | ")]
    rows += [f"| `{name}` | {summary(name)} | {subpackages(name, inner.get(name, ()))} |" for name in names]
    page = (ROOT / ARCHITECTURE).read_text(encoding="utf-8")
    return {ARCHITECTURE: LAYERS.sub(lambda _: "\n".join(rows) + "\n", page)}


def peer_table() -> dict[str, str]:
    """Return the README with the accuracy and the time of each tool for int8, from the recorded results.

    The accuracy is that of the best method of a tool, and of our defaults; the time is that of the method ``max``, and
    of our defaults.
    """
    results, _ = store.read(ROOT / "benchmarks/results.json")
    rows = []
    for model, name in NETWORKS.items():
        of_tool = [[each for each in results if (each.model, each.tool) == (model, tool)] for tool in tables.TOOLS]
        rows.append([name, *map(_accuracy_and_time, of_tool)])
    text = tables.markdown(["network", "qdqtool", "ONNX Runtime", "Model Optimizer"], rows)
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    return {"README.md": PEERS.sub(lambda _: text + "\n", page)}


def _accuracy_and_time(results: Sequence[Result]) -> str:
    judged = [each.quality.worst for each in results if each.quality and tables.stands_for_its_tool(each)]
    timed = [
        each.cost.wall
        for each in results
        if each.cost and tables.stands_for_its_tool(each) and each.group != contestants.HISTOGRAM
    ]
    return f"{max(judged):.1f} dB, {timed[0]:.1f} s"


def contracts() -> list[dict[str, Any]]:
    """Return the import contracts."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return list(settings["tool"]["importlinter"]["contracts"])


def summary(name: str) -> str:
    """Return the first sentence of the docstring of a package or module, without markup."""
    path = ROOT / "qdqtool" / name
    source = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    first = (ast.get_docstring(ast.parse(source.read_text(encoding="utf-8"))) or "").partition("\n")[0]
    return first.replace("``", "`")


def subpackages(name: str, order: Sequence[str]) -> str:
    """Return the folders of a package in the order of its contract, then those that it does not name.

    Args:
        name: The package.
        order: The layers of its contract, which may name modules too.
    """
    folders = [path.parent.name for path in sorted((ROOT / "qdqtool" / name).glob("*/__init__.py"))]
    layers = [[word for word in re.findall(r"\w+", layer) if word in folders] for layer in order]
    others = [folder for folder in folders if not any(folder in layer for layer in layers)]
    ordered = " > ".join(", ".join(f"`{each}`" for each in layer) for layer in layers if layer)
    return "; ".join(part for part in (ordered, ", ".join(f"`{each}`" for each in others)) if part)


def keywords() -> dict[str, str]:
    """Return the module with the keywords of the Python functions, made of the declarations of options."""
    hints = {command: dict(_hints(command)) for command in FUNCTIONS}
    bases: dict[str, list[str]] = {command: [] for command in hints}
    classes = []
    for name, commands in SHARED.items():
        first, *others = (hints[command] for command in commands)
        shared = {key: hint for key, hint in first.items() if all((key, hint) in other.items() for other in others)}
        above = [base for base in bases[commands[0]] if all(base in bases[command] for command in commands)]
        classes.append(_keyword_class(name, f"Options that {', '.join(commands)} share.", above, shared))
        for command in commands:
            bases[command] = [*(base for base in bases[command] if base not in above), name]
            hints[command] = {key: hint for key, hint in hints[command].items() if key not in shared}
    for command, own in hints.items():
        text = f"Options of ``{FUNCTIONS[command]}``."
        classes.append(_keyword_class(command.title(), text, bases[command], own))
    return {KEYWORDS: "\n\n".join([KEYWORDS_HEAD, "\n\n\n".join(classes)]) + "\n"}


def _hints(command: str) -> Iterator[tuple[str, str]]:
    """Yield the keywords of a function with their types."""
    for name, each in keywords_of(command).items():
        yield name, f"{each.kind.keyword} | None" if each.default is None else each.kind.keyword
    if command in WITH_REPORTS:
        yield "reports", 'Mapping[Literal["text", "json", "html"], FileName]'


def _keyword_class(name: str, text: str, bases: Sequence[str], hints: Mapping[str, str]) -> str:
    above = ", ".join(f"{base}Keywords" for base in bases) or "TypedDict"
    lines = [f"class {name}Keywords({above}, total=False):", f'    """{text}"""', *([""] if hints else [])]
    return "\n".join([*lines, *(f"    {keyword}: {hint}" for keyword, hint in hints.items())])


GENERATORS: tuple[Callable[[], Mapping[str, str]], ...] = (
    schema_files,
    keywords,
    layer_table,
    peer_table,
    lambda: {"docs/reference/formats.md": formats.page()},
    lambda: {"docs/rules/README.md": rules.index()},
)


def made() -> dict[str, str]:
    """Return the text of every generated file by its path in the project."""
    return {path: text for generator in GENERATORS for path, text in generator().items()}


def stored_schemas() -> set[str]:
    """Return the paths of the schemas in the package."""
    return {path.relative_to(ROOT).as_posix() for path in (ROOT / SCHEMAS).glob("*.json")}


def main() -> None:
    """Write the files that differ, and remove schemas of types that are gone."""
    wanted = made()
    for gone in sorted(stored_schemas() - wanted.keys()):
        (ROOT / gone).unlink()
        sys.stdout.write(f"removed {gone}\n")
    for name, text in wanted.items():
        path = ROOT / name
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            sys.stdout.write(f"wrote {name}\n")


if __name__ == "__main__":
    main()
