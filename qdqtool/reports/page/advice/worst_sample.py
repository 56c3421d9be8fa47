"""One sample is far below the others: somebody should look at it."""

from collections.abc import Iterator

from qdqtool.accuracy.checking.sample_errors import is_outlier
from qdqtool.reports.blocks import Step
from qdqtool.reports.page.advised import Advice, Files, compared, worst_output
from qdqtool.reports.saved.story import Story


def steps(story: Story, files: Files) -> Iterator[Step]:
    """Yield a step for the worst sample of the worst output of each check, where it stands out."""
    for source, check in compared(story):
        output = worst_output(check)
        if output is None or output.sample_sqnr is None or not output.worst_samples:
            continue
        sample, all_ = output.worst_samples[0], output.sample_sqnr
        figure = None if sample.nonfinite else sample.sqnr_db
        if not is_outlier(figure, all_.median_db, all_.samples):
            continue
        name = f"sample {sample.number}" + (f" ({', '.join(sample.files)})" if sample.files else "")
        kept = "has no figure in dB" if figure is None else f"keeps {figure:.2f} dB"
        fact = (
            f"At output {output.name}, {name} {kept}, and half of the samples keep more than {all_.median_db:.2f} dB "
            f"[{source}]. Look at this sample; the outputs of all samples are written, in their order, by:"
        )
        yield Step(fact, files.check("--save-outputs", "outputs.npz"))


ADVICE = Advice(50, steps)
