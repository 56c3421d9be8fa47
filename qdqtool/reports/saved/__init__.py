"""Saved JSON reports: what they are, what each says, and which of them are of one model."""
