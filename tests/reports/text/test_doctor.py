"""What the terminal says of this machine."""

from dataclasses import replace

from support.printed import ESCAPED, HOSTILE, printed

from qdqtool.engines.tensorrt.gpus import Gpu
from qdqtool.jobs.doctor_report import Component, DoctorReport
from qdqtool.reports.text.doctor import render

MISSING = Component(
    name="tensorrt", state="missing", version=None, note="pip install it", needed_for=("build", "check")
)
REPORT = DoctorReport(
    qdqtool="1.0",
    python="3.12",
    platform="Linux",
    gpus=(),
    gpu_note="no driver",
    components=(MISSING,),
    commands=(),
    targets=(),
    problems=(),
)


def lines(**changes: object) -> list[str]:
    return printed(render, replace(REPORT, **changes)).splitlines()


def test_versions_and_gpus_come_first():
    assert lines()[:2] == [
        "qdqtool 1.0, Python 3.12, Linux",
        "no GPU: no driver; engines are built ahead of time and run elsewhere",
    ]
    assert lines(gpus=(Gpu(name="H200", compute_capability="9.0"),))[1] == "GPU H200, compute capability 9.0"


def test_strings_of_the_machine_are_escaped():
    text = "\n".join(
        lines(
            gpus=(Gpu(name=HOSTILE, compute_capability="9.0"),),
            components=(replace(MISSING, note=HOSTILE),),
            problems=(HOSTILE,),
        )
    )
    assert text.count("evil") == text.count(ESCAPED) == 3
