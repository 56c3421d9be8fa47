"""The sample at which the worst output is furthest from the baseline's, for a terminal."""

from rich.console import Console

from qdqtool.accuracy.checking.report import OutputResult
from qdqtool.accuracy.checking.sample_errors import SampleDistribution, WorstSample, is_outlier
from qdqtool.errors import plural
from qdqtool.reports.terminal import escape


def print_worst_sample(output: OutputResult, console: Console) -> None:
    """Print the worst sample of an output where it is far below the others: somebody should look at it."""
    if output.sample_sqnr is None or not output.worst_samples:
        return
    sample, all_ = output.worst_samples[0], output.sample_sqnr
    if is_outlier(sample.rankable_db, all_.median_db, all_.samples):
        console.print(
            f"worst sample of '{escape(output.name)}': {_named(sample)}, {_error(sample)}; {_others(all_)}",
            style="yellow",
        )


def _named(sample: WorstSample) -> str:
    more = f" and {plural(len(sample.files) - 1, 'more file')}" if len(sample.files) > 1 else ""
    return f"number {sample.number}" + (f" ({escape(sample.files[0])}{more})" if sample.files else "")


def _error(sample: WorstSample) -> str:
    if sample.nonfinite:
        verb = "is" if sample.nonfinite == 1 else "are"
        return f"with {plural(sample.nonfinite, 'element')} that {verb} NaN or infinite in one model only"
    if sample.sqnr_db is None:
        return f"off by {sample.max_abs:.4g} where the baseline is 0 everywhere"
    return f"with {sample.sqnr_db:.2f} dB"


def _others(samples: SampleDistribution) -> str:
    return f"the median of {plural(samples.samples, 'sample')} is {samples.median_db:.2f} dB"
