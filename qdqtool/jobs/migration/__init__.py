"""Translate command lines of trtexec, Polygraphy and Model Optimizer to commands of qdqtool.

In: a line. Out: commands, and what became of each option. The options of the tools are data: ``options.toml``.

Read next: ``lines.py``, which reads a line; ``translation.py``, which makes the commands.
"""
