"""Read, index, edit, transform, run and compare ONNX models.

``graph`` loads a model without its weights (``graph/io/load.py``), indexes it (``graph/index/model_index.py``) and
applies edits (``graph/edits/surgeon.py``). ``ops`` describes operators, and ``targets`` what each consumer accepts.
``transforms`` changes whole models, ``diff`` compares two models, and ``running`` runs a model and returns inner
tensors. ``plan.py`` has the types of a plan. ``payload.py`` has tensor bytes that are computed when a model is saved.

In: ONNX files or ModelProto objects. Out: ``Model`` objects, which edits and transforms copy and never change.

Read next: ``graph/model.py``, then ``graph/index/view.py``.
"""
