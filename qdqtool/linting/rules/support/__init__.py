"""Code that several rules share: the base class, the context that rules read, and the words of messages."""
