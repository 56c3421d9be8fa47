"""The functions of ``import qdqtool``: they take what Python code has, as arrays, and call the jobs."""
