"""Make samples from images, sound and text. Each kind has its own preprocessing into arrays."""
