"""The fixes that several rules offer, as edits."""
