"""How time and memory of each command grow with the model and the data."""
