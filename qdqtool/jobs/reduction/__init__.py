"""Test case reduction: find the smallest model on which a command fails in the same way."""
