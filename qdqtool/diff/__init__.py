"""Two models side by side: which node of one is which of the other, and what Q/DQ stands in front of their inputs."""
