"""The functions of ``import qdqtool``: their arguments, and what they return.

Each function turns models, arrays and keywords into the request of one job and calls the job: see ``quantize.py``. This
package and :mod:`qdqtool.cli` do not import each other.

In: paths, ONNX models in memory, arrays or iterables, keywords. Out: the report of the job; it includes the model if no
output was named.

Read next: ``any_data.py`` for data, ``keywords.py`` for the typed keywords of each function, and
``docs/reference/python.md``.
"""
