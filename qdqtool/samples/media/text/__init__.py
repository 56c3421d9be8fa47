"""Make samples from lines of text: token ids from a tokenizer.json; masks and positions if the model needs them."""
