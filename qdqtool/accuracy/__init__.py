"""The accuracy of quantized models: measure it, check it against limits, and search for a model that keeps a limit.

``checking`` compares a model with a reference and judges gates: ``checking/verdict.py`` makes the report of ``check``.
``layers`` measures how much noise each quantized layer makes. ``search`` makes candidate models and looks for one that
keeps a limit. ``task_metrics`` scores outputs against labels.

In: a float model, a plan or a quantized model, and samples. Out: noise in dB, scores, gate results, or the model found.

Read next: ``search/goal_search.py`` and ``search/goal.py`` for the search for a limit, ``search/steps.py`` for how a
candidate is made, then ``layers/search.py`` for the search among layers.
"""
