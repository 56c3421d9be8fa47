"""The commands, step by step: one module for each command, with a request as input and a report as result.

A job calls the packages below it in order and makes no decisions itself. Its module has at most 200 lines; it reads no
options and prints nothing. ``conversion`` calls four jobs for ``convert``; ``reduction`` searches the smallest failing
model.

In: paths or models, data, and an options object. Out: a report, and the files that the options name. A failure is an
exception of :mod:`qdqtool.errors`, which has the exit code.

Read next: ``quantize.py``, the main job.
"""
