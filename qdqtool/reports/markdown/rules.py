"""The rule catalogue as Markdown: an index and a page for each rule.

``make docs`` and the build of a wheel or sdist write the pages into ``docs/rules``. Only the index is in git.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from qdqtool.jobs.catalogue import RuleCard, catalogue, judged_catalogue
from qdqtool.jobs.rule_examples import ExampleCard, ExampleFinding

_EFFECTS = {
    "refused": "the target does not load, build or run the model",
    "silent": "it loads, and the numbers or the meaning are wrong",
    "fallback": "the layer runs in float",
    "advice": "it works; there is a better way",
}


def pages() -> dict[str, str]:
    """Return the text of every page by file name, the index first."""
    cards = judged_catalogue().rules
    return {"README.md": _index(cards), **{f"{card.code}.md": _page(card) for card in cards}}


def index() -> str:
    """Return the text of the index."""
    return _index(catalogue().rules)


def write(folder: Path) -> None:
    """Write changed pages into ``folder``, and remove pages of rules that no longer exist."""
    folder.mkdir(parents=True, exist_ok=True)
    wanted = pages()
    for stale in folder.glob("*.md"):
        if stale.name not in wanted:
            stale.unlink()
    for name, text in wanted.items():
        path = folder / name
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def _index(cards: tuple[RuleCard, ...]) -> str:
    lines = [
        "# Rules",
        "",
        "`qdqtool validate` checks these rules. The page of a rule has its reason, the fix, and models that it reports",
        "and passes; `qdqtool explain CODE` shows the same.",
        "",
        *(f"* *{effect}*: {meaning}" for effect, meaning in _EFFECTS.items()),
        "",
        "| code | name | rule | targets |",
        "|---|---|---|---|",
    ]
    for card in cards:
        impacts = ", ".join(f"{impact.target} ({impact.effect})" for impact in card.impacts)
        lines.append(
            f'| <a id="{card.code}"></a>[{card.code}]({card.code}.md) | {card.name} | {card.summary} | {impacts} |'
        )
    return "\n".join(lines) + "\n"


def _page(card: RuleCard) -> str:
    impacts = [f"| {each.target} | {each.severity} | {each.effect}: {_EFFECTS[each.effect]} |" for each in card.impacts]
    paragraphs = [
        f"# {card.code} {card.name}",
        card.summary,
        f"**Why it matters.** {card.why}",
        f"**Bad.** {card.bad}",
        f"**Good.** {card.good}",
        f"**What to do.** {card.remedy[:1].upper()}{card.remedy[1:]}.",
        *_fixes(card),
        "\n".join(["| target | severity | effect |", "|---|---|---|", *impacts]),
        "A finding may have another severity than this; its message gives the reason.",
    ]
    for heading, examples in (("Reported", card.invalid), ("Passed", card.valid)):
        if examples:
            paragraphs.append(f"## {heading}")
        for example in examples:
            paragraphs += _example(example)
    return "\n\n".join([*paragraphs, f"Since {card.since}."]) + "\n"


def _fixes(card: RuleCard) -> Iterator[str]:
    if card.fixes:
        yield "**What `--fix` does.** It makes the first fix that fits ([labels](../how-to/validate.md)):"
        yield "\n".join(f"* *{fix.label}*: {fix.summary}" for fix in card.fixes)
    else:
        yield "**What `--fix` does.** Nothing: it has no automatic fix for this rule."


def _example(example: ExampleCard) -> Iterator[str]:
    where = f" (for {', '.join(example.targets)})" if example.targets else ""
    yield f"{example.title[:1].upper()}{example.title[1:]}{where}:"
    yield f"```onnx\n{example.text}\n```"
    if example.findings:
        yield "\n".join(map(_finding, example.findings))
    if example.fixed is not None:
        yield f"Fixed (*{example.fixed.label}*: {_literal(', '.join(example.fixed.edits))}):"
        yield f"```onnx\n{example.fixed.text}\n```"


def _finding(finding: ExampleFinding) -> str:
    where = ", ".join(finding.targets)
    return f"* {finding.severity}, *{finding.effect}*: {_literal(finding.message)} ({where})"


def _literal(text: str) -> str:
    """Return text that Markdown shows unchanged."""
    return re.sub(r"([\\`*_\[\]<>|])", r"\\\1", text)


if __name__ == "__main__":
    write(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/rules"))
