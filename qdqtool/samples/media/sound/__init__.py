"""Sound files as samples: decoded, resampled, and cut into windows of the length that the model takes."""
