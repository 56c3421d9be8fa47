"""One module a tool. ``MODES`` holds what writes the quantized model of each mode, given a :class:`Sample`."""
