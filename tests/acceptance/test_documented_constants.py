"""Constants that the manual names have the values of the code."""

import pytest
from support.paths import ROOT

from qdqtool.accuracy.checking import check_blame, pair_error, reference_run, repeatable, sample_errors, worst_output
from qdqtool.accuracy.checking.accuracy import SLICE
from qdqtool.accuracy.checking.gates import accuracy, activations
from qdqtool.accuracy.layers import dominant_layer, effects, layer_runs, method_trial
from qdqtool.accuracy.search import blame
from qdqtool.accuracy.task_metrics.metrics import perplexity, top_1
from qdqtool.cli import completion
from qdqtool.engines.build import options, parser_answer
from qdqtool.engines.tensorrt import process
from qdqtool.jobs import verdict
from qdqtool.jobs.reduction import subgraph
from qdqtool.linting import report, workers
from qdqtool.linting.repair import places
from qdqtool.linting.rules import unfillable_range
from qdqtool.models.graph.index import folders
from qdqtool.models.graph.io import load, model_file
from qdqtool.models.options import HalfType
from qdqtool.models.running import own_evaluator
from qdqtool.numerics import counting, gptq, kernels
from qdqtool.quantization.cluster import collector, connection, model_files
from qdqtool.quantization.planning.placement import weight_only
from qdqtool.quantization.preparation import trial
from qdqtool.quantization.preparation.factors import equalization, smoothquant
from qdqtool.quantization.ranges import checkpoint, types
from qdqtool.quantization.ranges.calibrators import auto, entropy
from qdqtool.quantization.statistics import channel_statistics, float_runs
from qdqtool.reports import bars
from qdqtool.reports.page import tensor_charts
from qdqtool.samples import split, spool
from qdqtool.samples.media.images import decode, samples

FACTS = {
    "explanation/calibration": (
        f"at least {split.LEAST_HELD} if there are {split.ENOUGH_TO_DIVIDE} samples or more",
        f"at most {SLICE} hold-out samples",
        f"a histogram of {counting.BINS:,} bins",
        f"take {own_evaluator.LARGE_WEIGHTS >> 30} GiB or more",
        f"parts of {own_evaluator.PART_WEIGHTS >> 20} MiB",
        f"saves more than {auto.GAIN:.0%}".replace("%", " %"),
        f"with up to {entropy.BINS:,} bins",
        f"With {method_trial.MIN_SAMPLES} samples or more, `auto` tries each",
        f"each method on up to {method_trial.MAX_SAMPLES} samples",
        f"gain at least {method_trial.LEAST_GAIN_DB} dB",
        f"The outputs on {float_runs.KEPT} selection samples",
        f"with {trial.MIN_SAMPLES} to {trial.MAX_SAMPLES} selection samples",
        f"fall by {trial.LEAST_GAIN_DB} dB over all",
        f"lose more than {trial.LARGEST_LOSS_DB:g} dB",
        f"m is {', '.join(f'{each:g}' for each in equalization.MIGRATIONS[:-1])} or {equalization.MIGRATIONS[-1]:g}",
        f"alphas from {smoothquant.CANDIDATES[0]} to {smoothquant.CANDIDATES[-1]}",
        f"half of the rows of {channel_statistics.ROW_SAMPLES} samples",
        f"at most {100 * dominant_layer.LARGEST_SHARE:g} % of the multiply-accumulates",
        f"gains at least {dominant_layer.LEAST_GAIN_DB:g} dB",
    ),
    "explanation/placement": (f"over {folders.MAX_FOLDED_ELEMENTS:,} elements",),
    "explanation/verdicts": (
        f"below {worst_output.LOW_SQNR:g} dB (an error of a tenth) or {100 * worst_output.LOW_AGREEMENT:g} % agreement",
        f"the file has more than {100 * verdict.LARGE:g} % of its size",
        f"On random inputs the limit is {activations.RANDOM_LEAST_DB:g} dB",
        f"values at or below \N{MINUS SIGN}{-pair_error.MASK:,.0f} that mask",
        f"It has less than {accuracy.LEAST_DB:g} dB",
        f"Of more than {sample_errors.FEW_PARTS} channels",
        f"both limits are {accuracy.PART_DB:g} dB less",
        f"until they have {sample_errors.LEAST_VALUES} values",
        f"differ by 1/{1 / accuracy.STEP:g}",
        f"of at most {100 * top_1.SIGNIFICANCE:g} % (exact",
        f"{top_1.LARGE_LOSS:g} percentage points of `top-1`, or {perplexity.LARGE_LOSS:g} % of `perplexity`",
        f"less than {blame.FAIR_DB:g} dB, and the layer makes at least {100 * blame.LEAST_SHARE:g} %",
        f"runs {layer_runs.SAMPLES} to {layer_runs.MOST_SAMPLES} selection samples",
    ),
    "how-to/accuracy": (
        f"up to {layer_runs.SAMPLES} selection samples",
        f"at least {effects.FEW_SAMPLES} samples",
        f"less than {blame.FAIR_DB:g} dB",
    ),
    "how-to/build": (f"`--timeout` ({options.DEFAULT_TIMEOUT:g} s)",),
    "how-to/check": (
        f"at least {repeatable.SAME_DB:g} dB",
        f"at least {100 * check_blame.LEAST_SHARE:g} % of the noise",
        f"clip more than {100 * reference_run.MUCH_CLIPPED:g} % of",
        f"more than {sample_errors.OUTLIER_DB:g} dB below the median of at least {sample_errors.FEWEST} samples",
        f"up to {sample_errors.MOST} for each float output",
    ),
    "how-to/data": (f"above {decode.MOST_PIXELS // 10**6} million pixels", f"the first {samples.MOST_SHOWN} images"),
    "how-to/failures": (
        f"no processor time for {process.STUCK_SECONDS:g} s",
        f"Weights of {subgraph.INLINE_BYTES >> 20} MiB or more",
    ),
    "how-to/quantize": (f"two blocks of {weight_only.SMALLEST_BLOCK}",),
    "how-to/scale-out": (
        f"pieces of {model_files.PIECE >> 20} MiB",
        f"batches of {types.CHUNK} samples, or fewer beyond {collector.BATCH_BYTES >> 20} MiB",
        f"lost for {connection.GONE_SECONDS:g} s",
        f"at the start for {connection.CONNECT_SECONDS} s",
        f"every {checkpoint.INTERVAL:g} seconds",
    ),
    "how-to/validate": (
        f"up to {places.MAX_PLACES} tensors",
        f"no answer in {parser_answer.SECONDS:g} s",
        f"over {parser_answer.MOST_BYTES // 10**9} GB of weights",
        f"up to {workers.MOST_JOBS} processes",
        f"over {unfillable_range.MOST_UNUSED:g} times wider",
    ),
    "reference/command-line": (
        f"at least {bars.LEAST_WIDTH} columns",
        f"{load.MOST_NODES:,}, or {load.MOST_COPIES} times",
        f"{load.LONGEST_NAME:,} characters",
        f"up to {completion.MAX_MODEL_BYTES >> 20} MiB",
    ),
    "reference/files": (
        f"more than {tensor_charts.MOST} activations",
        f"above {model_file.QUICK_BYTES >> 20} MiB has no digest",
    ),
    "reference/numerics": (
        f"damping d = {gptq.DAMPING}",
        f"= {((1 + gptq.DAMPING) / gptq.DAMPING) ** 0.5 / 2:.2f} steps",
        f"float16 ends at {HalfType.FP16.finite:g}",
    ),
    "reference/python": (f"after {spool.MOST_ITEMS:,} items, and any iterable after {spool.MOST_BYTES >> 30} GiB",),
}


@pytest.mark.parametrize(("page", "fact"), [(page, fact) for page, facts in FACTS.items() for fact in facts])
def test_a_number_of_the_manual_is_that_of_the_code(page: str, fact: str):
    assert fact.lower() in " ".join((ROOT / f"docs/{page}.md").read_text(encoding="utf-8").split()).lower()
    assert any(letter.isdigit() for letter in fact)


def test_repeated_findings_are_those_beyond_ten():
    assert (report.REPEATED, kernels.WORTH_IT) == (10, 10_000_000), "validate.md and numerics.md spell these out"
