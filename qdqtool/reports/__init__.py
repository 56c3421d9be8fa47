"""Rendering of reports, one format a module."""
