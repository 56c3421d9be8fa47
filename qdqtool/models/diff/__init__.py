"""Compare two models: match their nodes, and compare the Q/DQ in front of the inputs of matched nodes."""
