"""Run the samples of a calibration on the workers of a Dask cluster.

:mod:`~qdqtool.quantization.cluster.connection` reaches the workers, :mod:`~qdqtool.quantization.cluster.model_files`
brings the model to them, :mod:`~qdqtool.quantization.cluster.task` is what a worker runs,
:mod:`~qdqtool.quantization.cluster.collector` hands out samples and merges ranges.
"""
