"""Which faults a file has, without running it, and how they are repaired.

``policy.py`` chooses rules, applies them and drops suppressed findings; it is the entry. ``rules`` has a module for
each rule, which yields faults and offers fixes. ``repair`` applies fixes and proves them by running the model before
and after. ``settings.py`` and ``baseline.py`` read what a project has accepted.

In: an ONNX file and targets. Out: findings with severity, location and fix; for ``--fix`` the repaired model.

Read next: ``rules/scale_value.py``, a typical rule, and ``rules/support/rule_context.py``, which rules read.
"""
