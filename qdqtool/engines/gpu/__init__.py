"""Engines on the GPU of this machine: run them, time them, and read the times of their layers."""
