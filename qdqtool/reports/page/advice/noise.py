"""An output keeps little: the layers that cost most, and how to leave them in float."""

from collections.abc import Iterator

from qdqtool.accuracy.search.blame import FAIR_DB
from qdqtool.jobs.advice import command, excluding, loud_layers
from qdqtool.jobs.quantize_report import QuantizeReport
from qdqtool.jobs.sensitivity_report import SensitivityReport
from qdqtool.reports.blocks import Step, percentage
from qdqtool.reports.page.advised import Advice, Files, compared, has_fault, worst_output
from qdqtool.reports.saved.story import Story


def steps(story: Story, files: Files) -> Iterator[Step]:
    """Yield steps where the worst output keeps too little, and no fault is why; what was asked for is enough."""
    found = _worst(story)
    quantize = story.first(QuantizeReport)
    asked = quantize.search.min_sqnr_db if quantize is not None and quantize.search is not None else None
    enough = FAIR_DB if asked is None else asked
    if found is None or found[1] >= enough or any(has_fault(check) for _, check in compared(story)):
        return
    fact = f"Output {found[0]} keeps {found[1]:.2f} dB [{found[2]}]"
    if asked is not None:
        words = ("--min-sqnr", f"{asked + (asked - found[1]):.4g}")
        yield Step(
            f"{fact}, and {asked:g} dB was asked for on other samples. To ask for as much more:", files.quantize(*words)
        )
        return
    yield from _layers(story, files, fact)


def _worst(story: Story) -> tuple[str, float, str] | None:
    """Return the worst output with its SQNR and the report that says so: a check on real data, else ``quantize``."""
    checked = [
        (output.name, output.sqnr_db, source)
        for source, check in compared(story)
        if (output := worst_output(check)) is not None and output.sqnr_db is not None
    ]
    quantize = story.first(QuantizeReport)
    is_real = quantize is not None and quantize.calibration is not None and not quantize.calibration.random
    measured = quantize.accuracy.outputs if quantize is not None and is_real and quantize.accuracy is not None else ()
    source = next((name for name, _ in story.each(QuantizeReport)), "")
    others = [(output.name, output.sqnr_db, source) for output in measured if output.sqnr_db is not None]
    return min(checked or others, key=lambda each: each[1], default=None)


def _layers(story: Story, files: Files, fact: str) -> Iterator[Step]:
    quantize, sensitivity = story.first(QuantizeReport), story.first(SensitivityReport)
    blame = quantize.blame if quantize is not None else None
    if sensitivity is not None and sensitivity.nodes:
        count = loud_layers([node.noise_share or 0 for node in sensitivity.nodes])
        loud = [(node.node, node.noise_share or 0, node.exclude) for node in sensitivity.nodes[:count]]
    else:
        loud = [(layer.node, layer.noise_share, layer.exclude) for layer in blame.layers] if blame is not None else []
    patterns = [pattern for _, _, each in loud for pattern in each]
    is_told = any(check.blame is not None and check.blame.layers for _, check in compared(story))
    if patterns and not is_told:
        names = ", ".join(f"{name} ({percentage(share)})" for name, share, _ in loud)
        yield Step(
            f"{fact}. Most of the noise is made by {names}. To leave them in float:",
            files.quantize(*excluding(patterns)),
        )
    goal = files.quantize("--min-sqnr", f"{FAIR_DB:g}")
    yield Step(f"{fact}. To leave in float the fewest layers with which every output keeps {FAIR_DB:g} dB:", goal)
    if sensitivity is None:
        words = ("sensitivity", files.float_model, "--calib-data", files.data, *files.options)
        yield Step("What each layer costs is not known yet:", command(*words))


ADVICE = Advice(40, steps)
