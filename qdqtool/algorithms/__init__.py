"""How weights are changed so that quantizing costs less: one algorithm a module.

Graphs are searched and edited by :mod:`qdqtool.graph`; models are run by :mod:`qdqtool.pipeline`.
"""
