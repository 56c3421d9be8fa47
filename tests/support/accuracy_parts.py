"""Parts of reports on accuracy that several renderers print."""

from qdqtool.accuracy.checking.report import BoundaryResult
from qdqtool.accuracy.report import BlamedLayer

BLAMED = BlamedLayer(
    node="conv",
    op_type="Conv",
    graph="",
    nodes=("conv",),
    noise_share=0.32,
    alone_db=24.26,
    without_db=None,
    dominant=False,
    macs_share=0.2,
    weights_share=0.3,
    exclude=("conv",),
)
BOUNDARY = BoundaryResult(
    node="q",
    graph="then",
    tensor="t",
    kind="activation",
    format="int8",
    granularity="per-tensor",
    max_steps=0.5,
    mean_steps=0.25,
    index=(1, 2),
    sqnr_db=None,
    clipped=1,
    elements=8,
)
