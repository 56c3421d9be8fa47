"""Find the faults of a model file without running it, and repair them.

The entry is ``policy.py``: it chooses rules, applies them and drops suppressed findings. ``rules`` has a module for
each rule, which yields faults and offers fixes. ``repair`` applies fixes and proves them by running the model before
and after. ``settings.py`` and ``baseline.py`` read the settings and the accepted findings of a project.

In: an ONNX file and targets. Out: findings with severity, location and fix; for ``--fix`` the repaired model.

Read next: ``rules/scale_value.py``, a typical rule, and ``rules/support/rule_context.py``, the input of every rule.
"""
