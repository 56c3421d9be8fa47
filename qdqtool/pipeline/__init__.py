"""The jobs: request in, report out. No click, no printing."""
