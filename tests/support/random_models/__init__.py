"""Hypothesis strategies of ONNX models: float models, and models that have Q/DQ already.

Every model passes ``onnx.checker`` and loads in ONNX Runtime's CPU provider (``tests/support/test_random_models.py``).
Tensors are tiny, so that drawing takes a few milliseconds. Layers are in :mod:`support.random_models.layers`; to add an
operator, add a function there.
"""

from support.random_models.equal import assert_same_outputs as assert_same_outputs
from support.random_models.models import drawn_feeds as drawn_feeds
from support.random_models.models import float_models as float_models
from support.random_models.models import quantized_models as quantized_models
from support.random_models.models import whole as whole
from support.random_models.plans import inserted as inserted
from support.random_models.plans import plans as plans
from support.random_models.trying import tried_on as tried_on
