"""Mutation tests: small faults are put into the package, and the tests that reach them have to fail.

``make mutants`` runs :mod:`mutation.__main__`. cosmic-ray makes the mutants and keeps the results. What is ours is
which tests are asked (:mod:`mutation.reach`), and how they run without another start of Python
(:mod:`mutation.trials`).
"""
