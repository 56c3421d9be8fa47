"""Recipes: the options of a command in a TOML file."""
