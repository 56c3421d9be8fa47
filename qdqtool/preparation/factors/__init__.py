"""Which factors make the channels of a tensor even, from statistics and weights alone."""
