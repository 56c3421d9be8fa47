"""The jobs, one module a command: request in, report out. No click, no printing."""
