"""The ranges of activations: how they are collected, chosen, stored in files and merged."""
