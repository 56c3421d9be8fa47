"""Test case reduction: the smallest model on which a command still fails alike."""
