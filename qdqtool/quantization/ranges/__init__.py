"""The ranges of activations: how they are collected, chosen, kept in files and merged."""
