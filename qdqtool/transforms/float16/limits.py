"""What float16 holds: 11 bits from 2**-14 to 65504, fewer down to 2**-24, nothing beyond."""

FINITE = 65504.0
"""The largest finite float16."""

LARGEST = FINITE / 4
"""Largest magnitude of a computed tensor. Other data than what was measured may give more: so much is left for it."""

NORMAL = 2.0**-14
"""The smallest float16 of full precision. What lies below has fewer bits, and hardware may flush it to zero."""

TINIEST = 2.0**-24
"""The smallest float16 above zero."""
