"""Compare two models: match their nodes, and compare the Q/DQ before the inputs of matched nodes."""
