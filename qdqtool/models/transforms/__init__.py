"""Transforms, made of edits, that keep what a model computes: shapes, opset, BatchNormalization, float16."""
