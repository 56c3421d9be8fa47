"""ONNX models: how they are read, indexed, edited, transformed, run and compared.

``graph`` loads a model without its weights (``graph/io/load.py``), indexes it (``graph/index/model_index.py``) and
carries out edits (``graph/edits/surgeon.py``). ``ops`` and ``targets`` say what operators do and what consumers accept.
``transforms`` changes whole models, ``diff`` compares two, ``running`` runs one and returns inner tensors. ``plan.py``
has the types of a plan, ``payload.py`` tensors whose bytes are made when a model is saved.

In: ONNX files or ModelProto objects. Out: ``Model`` objects, which edits and transforms copy and never change.

Read next: ``graph/model.py``, then ``graph/index/view.py``.
"""
