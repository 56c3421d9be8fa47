"""Limits of float16: 11 significant bits from 2**-14 to 65504, fewer down to 2**-24."""

FINITE = 65504.0
"""The largest finite float16."""

LARGEST = FINITE / 4
"""Largest measured magnitude of a tensor in float16; the factor of 4 is left for data that was not measured."""

NORMAL = 2.0**-14
"""The smallest normal float16. Smaller values have fewer bits, and hardware may flush them to zero."""

TINIEST = 2.0**-24
"""The smallest float16 above zero."""
