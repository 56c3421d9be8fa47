"""Read-only knowledge of one model: tensors, uses, types, constants and Q/DQ nodes."""
