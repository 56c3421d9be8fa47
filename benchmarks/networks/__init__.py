"""What ``benchmarks/zoo.py`` is made of: the networks, their export, and what is done with each."""
