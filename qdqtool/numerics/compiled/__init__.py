"""Kernels that numba compiles. A module is imported when its first kernel is needed."""
