"""Make samples from sound files: decode, resample, and cut into windows of the model's input length."""
