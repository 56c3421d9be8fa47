"""Mutation tests: small faults are put into the package, and the tests that reach them have to fail.

``make mutants`` runs :mod:`tools.mutation.__main__`. cosmic-ray makes the mutants and keeps the results. Our own part
chooses the tests (:mod:`tools.mutation.reach`) and runs them without another start of Python
(:mod:`tools.mutation.trials`).
"""
