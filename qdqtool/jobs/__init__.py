"""What a command does, step by step: one module for each command, request in and report out.

A job calls the packages below it in order and decides nothing itself. It has at most 200 lines, and neither reads
options nor prints. ``conversion`` calls four jobs for ``convert``; ``reduction`` searches the smallest failing model.

In: paths or models, data, and an options object. Out: a report, and the files that the options name. A failure is an
exception of :mod:`qdqtool.errors`, which has the exit code.

Read next: ``quantize.py``, the main job.
"""
