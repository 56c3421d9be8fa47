"""What ``benchmarks/peers.py`` is made of: models, contestants, and what is measured of them."""
