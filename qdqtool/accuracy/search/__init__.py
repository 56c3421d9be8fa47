"""Quantized models that are not written yet: made of a plan, judged, measured, and searched for a goal."""
