"""The networks, a module for each source of them. Each has a tuple ``NETWORKS``."""
