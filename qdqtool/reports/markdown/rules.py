"""The rule catalogue as Markdown: an index and a page for each rule.

``make docs`` writes the pages into ``docs/rules``, and so does the build of a wheel or sdist. Only the index is in git.
"""

import re
import sys
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
    """File name and text of every page, the index first."""
    cards = judged_catalogue().rules
    return {"README.md": _index(cards), **{f"{card.code}.md": _page(card) for card in cards}}


def index() -> str:
    """The text of the index."""
    return _index(catalogue().rules)


def write(folder: Path) -> None:
    """Write every page that differs into ``folder`` and remove pages of rules that are gone."""
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
        "What `qdqtool validate` looks for. `qdqtool explain CODE` shows a rule with its reason, what to do,",
        "and models that it reports and passes. `make docs` writes the same beside this page: CODE.md for each rule.",
        "",
        "`make generated` writes this page from the rule classes: edit those.",
        "",
        *(f"* *{effect}*: {meaning}" for effect, meaning in _EFFECTS.items()),
        "",
        "| code | name | rule | targets |",
        "|---|---|---|---|",
    ]
    lines += [
        f'| <a id="{card.code}"></a>{card.code} | {card.name} | {card.summary} | {_short_impacts(card)} |'
        for card in cards
    ]
    return "\n".join(lines) + "\n"


def _short_impacts(card: RuleCard) -> str:
    return ", ".join(f"{impact.target} ({impact.effect})" for impact in card.impacts)


def _page(card: RuleCard) -> str:
    lines = [
        f"# {card.code} {card.name}",
        "",
        card.summary,
        "",
        f"**Why it matters.** {card.why}",
        "",
        f"**Bad.** {card.bad}",
        "",
        f"**Good.** {card.good}",
        "",
        f"**What to do.** {card.remedy[:1].upper()}{card.remedy[1:]}.",
        "",
        *_fixes(card),
        "| target | severity | effect |",
        "|---|---|---|",
        *(f"| {each.target} | {each.severity} | {each.effect}: {_EFFECTS[each.effect]} |" for each in card.impacts),
        "",
        "A finding may weigh less or more than this usual impact; its message says why.",
        "",
    ]
    for heading, examples in (("Reported", card.invalid), ("Passed", card.valid)):
        if examples:
            lines += [f"## {heading}", ""]
        for example in examples:
            lines += _example(example)
    lines.append(f"Since {card.since}.")
    return "\n".join(lines) + "\n"


def _fixes(card: RuleCard) -> list[str]:
    if not card.fixes:
        return []
    listed = [f"* *{fix.label}*: {fix.summary}" for fix in card.fixes]
    return ["**What `--fix` does.** The first of these that fits ([labels](../fixes.md)):", "", *listed, ""]


def _example(example: ExampleCard) -> list[str]:
    where = f" (for {', '.join(example.targets)})" if example.targets else ""
    title = f"{example.title[:1].upper()}{example.title[1:]}{where}:"
    lines = [title, "", *_model(example.text), *map(_finding, example.findings)]
    if example.findings:
        lines.append("")
    if example.fixed is not None:
        edits = ", ".join(example.fixed.edits)
        lines += [f"Fixed (*{example.fixed.label}*: {_literal(edits)}):", "", *_model(example.fixed.text)]
    return lines


def _model(text: str) -> list[str]:
    return ["```onnx", text, "```", ""]


def _finding(finding: ExampleFinding) -> str:
    where = ", ".join(finding.targets)
    return f"* {finding.severity}, *{finding.effect}*: {_literal(finding.message)} ({where})"


def _literal(text: str) -> str:
    """Text that Markdown shows as it is."""
    return re.sub(r"([\\`*_\[\]<>|])", r"\\\1", text)


if __name__ == "__main__":
    write(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/rules"))
