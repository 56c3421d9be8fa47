"""What the terminal says of the outputs of an engine."""

from support.printed import ESCAPED, HOSTILE, printed

from qdqtool.engines.gpu.report import Loaded, RunReport
from qdqtool.engines.tensorrt.gpus import Gpu
from qdqtool.reports.text.bench import render_run
from qdqtool.samples.report import DataDescription


def test_strings_of_files_and_models_are_escaped():
    gpu = Gpu(name=HOSTILE, compute_capability="8.9")
    report = RunReport(
        engine=Loaded(file=HOSTILE, library="tensorrt", version="11", gpu=gpu),
        data=DataDescription(HOSTILE, 1, None, {}),
        output=HOSTILE,
        outputs={HOSTILE: (1, 2)},
    )
    text = printed(render_run, report)
    assert text.count(ESCAPED) == text.count("evil") == 5
    assert f"  output   {ESCAPED}: 1x2" in text
    assert "1 sample\n" in text
