"""How a float model is quantized: preparation, ranges, plan, insertion.

``preparation`` changes the model so that it is easier to quantize, and gathers the inputs of a plan; the entry is
``gather_inputs`` in ``preparation/plan_inputs.py``. ``ranges`` counts the values of activations and turns counts into
ranges. ``planning`` decides what is quantized and computes scales. ``insertion`` inserts the nodes and constants of a
plan. ``statistics`` runs the float model over samples. ``cluster`` runs samples on other machines; it is optional.

In: a float model, samples or a ranges file, a recipe. Out: a plan (:mod:`qdqtool.models.plan`), then the Q/DQ model.

Read next: ``planning/recipe.py`` for the options, then ``planning/placement``.
"""
