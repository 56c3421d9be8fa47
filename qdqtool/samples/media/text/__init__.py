"""Lines of text as samples: token ids from a tokenizer.json, with mask, types and positions as the model takes them."""
