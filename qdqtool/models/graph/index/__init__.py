"""A read-only index of one model: tensors, uses, types, constants and Q/DQ nodes."""
