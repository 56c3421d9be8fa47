"""Run the samples of a calibration on the workers of a Dask cluster.

:mod:`~qdqtool.cluster.connection` reaches the workers, :mod:`~qdqtool.cluster.model_files` brings the model to them,
:mod:`~qdqtool.cluster.task` is what a worker runs, :mod:`~qdqtool.cluster.collector` hands out samples and merges
ranges.
"""
