"""Hold the size of the project to its limits, and compare commits: ``make lint`` fails beyond a limit.

    python tools/budget.py                        the working tree against tools/budget.toml
    python tools/budget.py --history [COMMIT...]  a table of these commits; default: before the consolidation, and HEAD

A limit may be lowered at any time. A limit that is raised needs another ``why`` in ``tools/budget.toml``: this program
compares the file with its versions in HEAD and in the parent of HEAD, and fails where only the figure has changed.

``tools/times.py`` holds the limits of what takes time: the tests and the demo.
"""

import argparse
import ast
import io
import os
import re
import statistics
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIMITS = "tools/budget.toml"
PACKAGE = "qdqtool"
BEFORE = "8cb3965b"
"""The last commit before the consolidation."""
MEASURED = ("test seconds", "test-all seconds", "collection seconds", "demo seconds", "demo packages")
"""The figures that are not read from the source: ``tools/times.py`` has them."""
GENERATED = (
    f"{PACKAGE}/schemas/*.json",
    f"{PACKAGE}/reports/schemas/*.json",
    "docs/rules/*.md",
    "docs/formats.md",
    "docs/options.md",
    "docs/reference/formats.md",
)
"""Files that follow from code, in the old layout and in this one."""
COUNTS = """
import click, qdqtool
from qdqtool.cli import command
context = click.Context(command)
found = [command.get_command(context, name) for name in command.list_commands(context)]
print(sum(isinstance(each, click.Option) for one in found for each in one.params), len(qdqtool.__all__))
"""

Figures = dict[str, int]


def measure(tree: Path) -> Figures:
    """Return every figure of a checkout, of this layout or an older one, by its name.

    Args:
        tree: Its folder.
    """
    package = tree / PACKAGE
    sources = {path.relative_to(package).as_posix(): path.read_text("utf-8") for path in sorted(package.rglob("*.py"))}
    trees = {path: ast.parse(text) for path, text in sources.items()}
    kinds: Counter[str] = Counter()
    for path, text in sources.items():
        kinds += line_kinds(text, trees[path])
    sizes = [len(text.splitlines()) for text in sources.values()]
    folders = [path.removesuffix("/__init__.py") for path in sources if path.endswith("/__init__.py")]
    return {
        "packages": sum("/" not in folder for folder in folders),
        "subpackages": sum("/" in folder for folder in folders),
        "root modules": sum("/" not in path for path in sources),
        "layers": layers(tree / "pyproject.toml"),
        "modules": len(sources),
        "median module": round(statistics.median(sizes)),
        "largest module": max(sizes),
        "lines": sum(sizes),
        **{f"{kind} lines": kinds[kind] for kind in ("code", "comment", "docstring", "import", "blank")},
        "single-importer modules": sum(count == 1 for count in importers(trees).values()),
        "class names used twice": sum(count > 1 for count in class_names(trees).values()),
        **interface(tree),
        "glossary terms": glossary_terms(tree),
        "generated lines": sum(len(read(path).splitlines()) for path in generated(tree)),
    }


def line_kinds(text: str, tree: ast.Module) -> Counter[str]:
    """Return how many lines of a module are docstrings, imports, comments, blank, and code.

    A string that stands for itself is a docstring, also below a constant. A line counts once.
    """
    kinds: dict[int, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        stripped = line.strip()
        kinds[number] = "comment" if stripped.startswith("#") else "code" if stripped else "blank"
    for node in ast.walk(tree):
        kind = None
        if isinstance(node, ast.Import | ast.ImportFrom):
            kind = "import"
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            kind = "docstring"
        if kind is not None:
            assert isinstance(node, ast.stmt)
            kinds |= dict.fromkeys(range(node.lineno, (node.end_lineno or node.lineno) + 1), kind)
    return Counter(kinds.values())


def importers(trees: Mapping[str, ast.Module]) -> Counter[str]:
    """Return how many modules import each module that is no ``__init__``, at its top or inside a function."""
    modules = {path.removesuffix(".py").replace("/", "."): path for path in trees if not path.endswith("__init__.py")}
    found: dict[str, set[str]] = defaultdict(set)
    for path, tree in trees.items():
        for target in targets(tree):
            module = target if target in modules else target.rpartition(".")[0]
            if module in modules and modules[module] != path:
                found[module].add(path)
    return Counter({module: len(readers) for module, readers in found.items()})


def targets(tree: ast.Module) -> Iterator[str]:
    """Yield what a module imports of the package: a module, or a name in a module, without the package's own name."""
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [each.name for each in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            names = [f"{node.module}.{each.name}" for each in node.names]
        yield from (name.removeprefix(f"{PACKAGE}.") for name in names if name.startswith(f"{PACKAGE}."))


def class_names(trees: Mapping[str, ast.Module]) -> Counter[str]:
    """Return how many modules define a class of each name."""
    return Counter(
        name for tree in trees.values() for name in {node.name for node in tree.body if isinstance(node, ast.ClassDef)}
    )


def layers(settings: Path) -> int:
    """Return how many layers the first import contract has."""
    contracts = tomllib.loads(settings.read_text("utf-8"))["tool"]["importlinter"]["contracts"]
    return len(next(each["layers"] for each in contracts if each["type"] == "layers"))


def interface(tree: Path) -> dict[str, int]:
    """Return how many options all commands have together, and how many names the package has in public.

    Both are asked of a process that imports the package of that tree.
    """
    words = [sys.executable, "-P", "-c", COUNTS]
    environment = {**os.environ, "PYTHONPATH": str(tree)}
    done = subprocess.run(words, cwd=tree, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"the options in {tree} cannot be counted\n{done.stderr}")
    options, names = map(int, done.stdout.split())
    return {"options": options, "public names": names}


def generated(tree: Path) -> set[Path]:
    """Return the generated files that git has, or that are there where the tree is no checkout."""
    found = {path for pattern in GENERATED for path in tree.glob(pattern)}
    if not (tree / ".git").exists():
        return found
    listed = git("ls-files", "--cached", "--others", "--exclude-standard", "docs", PACKAGE, folder=tree)
    return found & {tree / name for name in listed.decode().splitlines()}


def glossary_terms(tree: Path) -> int:
    """Return the rows of the glossary, which was in another folder before."""
    text = read(tree / "docs/reference/glossary.md") or read(tree / "docs/glossary.md")
    return len(re.findall(r"^\| (?!word \||term \||---)", text, re.MULTILINE))


def read(path: Path) -> str:
    """Return the text of a file, or nothing where a tree has none."""
    return path.read_text("utf-8") if path.is_file() else ""


def exceeded(figures: Figures, limits: Mapping[str, Mapping[str, object]]) -> Iterator[str]:
    """Yield a line for each figure beyond its limit, and for each limit of a figure that does not exist."""
    for name, entry in limits.items():
        limit = entry["limit"]
        assert isinstance(limit, int)
        if name not in figures:
            if name not in MEASURED:
                yield f"{name}: there is no such figure; remove it from {LIMITS}"
        elif figures[name] > limit:
            yield f"{name}: {figures[name]:,}, limit {limit:,} (+{figures[name] - limit:,})"


def raised(old: Mapping[str, Mapping[str, object]], new: Mapping[str, Mapping[str, object]]) -> Iterator[str]:
    """Yield a line for each limit that is raised or removed without another ``why``."""
    for name, entry in old.items():
        if name not in new:
            yield f"{name}: its limit was removed"
            continue
        before, after = entry["limit"], new[name]["limit"]
        assert isinstance(before, int)
        assert isinstance(after, int)
        if after > before and entry["why"] == new[name]["why"]:
            yield f"{name}: raised from {before:,} to {after:,}, and its `why` is unchanged"


def earlier_limits() -> Iterator[Mapping[str, Mapping[str, object]]]:
    """Yield the limits in HEAD and in its parent, where they have any."""
    for commit in ("HEAD", "HEAD^"):
        done = subprocess.run(["git", "show", f"{commit}:{LIMITS}"], cwd=ROOT, capture_output=True, check=False)
        if done.returncode == 0:
            yield tomllib.loads(done.stdout.decode())


def history(commits: Sequence[str]) -> str:
    """Return a table of the figures of some commits."""
    columns = []
    for commit in commits:
        with tempfile.TemporaryDirectory() as name:
            with tarfile.open(fileobj=io.BytesIO(git("archive", commit))) as packed:
                packed.extractall(name, filter="data")
            columns.append(measure(Path(name)))
    short = [git("rev-parse", "--short=8", commit).decode().strip() for commit in commits]
    return table(short, columns)


def table(heads: Sequence[str], columns: Sequence[Figures]) -> str:
    """Return figures as text: a row for each name, a column for each commit."""
    names = dict.fromkeys(name for column in columns for name in column)
    wide = max(map(len, names))
    lines = [" " * wide + "".join(f"{head:>11}" for head in heads)]
    for name in names:
        cells = (f"{column[name]:,}" if name in column else "-" for column in columns)
        lines.append(f"{name:<{wide}}" + "".join(f"{cell:>11}" for cell in cells))
    return "\n".join(lines)


def git(*words: str, folder: Path | None = None) -> bytes:
    """Return what git prints in a folder, or in the project."""
    done = subprocess.run(["git", *words], cwd=folder or ROOT, capture_output=True, check=False)
    if done.returncode:
        sys.exit(f"git {' '.join(words)} failed: {done.stderr.decode().strip()}")
    return done.stdout


def main() -> None:
    """Print a table, or end with 1 where a limit is exceeded or raised without a reason."""
    parser = argparse.ArgumentParser(description="Hold the size of the project to its limits, and compare commits.")
    parser.add_argument("--history", nargs="*", metavar="COMMIT", help="print the figures of commits")
    asked = parser.parse_args()
    if asked.history is not None:
        sys.stdout.write(f"{history(asked.history or (BEFORE, 'HEAD'))}\n")
        return
    limits = tomllib.loads((ROOT / LIMITS).read_text("utf-8"))
    faults = [
        *exceeded(measure(ROOT), limits),
        *dict.fromkeys(line for old in earlier_limits() for line in raised(old, limits)),
    ]
    if faults:
        sys.exit("\n".join([*faults, f"Make it smaller, or raise the limit in {LIMITS} and say why there."]))
    sys.stdout.write(f"{len(limits)} limits kept\n")


if __name__ == "__main__":
    main()
