"""What TensorRT for RTX refuses, and whether our messages explain it: corpora, judge, table."""
