"""The code that several rules share: the rule type, the context they read, and words for messages."""
