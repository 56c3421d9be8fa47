"""Run the samples of a calibration on the workers of a Dask cluster.

:mod:`~qdqtool.quantization.cluster.connection` connects to the workers, and
:mod:`~qdqtool.quantization.cluster.model_files` sends them the model. Workers run
:mod:`~qdqtool.quantization.cluster.task`; :mod:`~qdqtool.quantization.cluster.collector` hands out samples and merges
ranges.
"""
