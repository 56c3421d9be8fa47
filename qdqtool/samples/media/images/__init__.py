"""Make samples from image files: find the files, decode them, and convert pixels into the input of a network."""
