"""Image files as samples: which files, how they are decoded, and how a picture becomes the input of a network."""
