"""Random samples say nothing of real ones: ranges and figures need real data."""

from collections.abc import Iterator

from qdqtool.accuracy.checking.report import CheckReport
from qdqtool.jobs.quantize_report import QuantizeReport
from qdqtool.reports.blocks import Step
from qdqtool.reports.page.advised import Advice, Files
from qdqtool.reports.saved.story import Story


def steps(story: Story, files: Files) -> Iterator[Step]:
    """Yield a step for ranges of random samples, and one for each check on random inputs."""
    quantize = story.first(QuantizeReport)
    if quantize is not None and quantize.calibration is not None and quantize.calibration.random:
        yield Step("The ranges are those of random inputs. Ranges for use come from real data:", files.quantize())
    for source, check in story.each(CheckReport):
        if check.data.seed is not None:
            yield Step(
                f"The check ran on random inputs [{source}]. What the model keeps shows on real data:", files.check()
            )
        elif check.baseline is None:
            yield Step(f"The check had no float model to compare with [{source}]:", files.check())


ADVICE = Advice(30, steps)
