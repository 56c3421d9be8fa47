"""Whole-model changes that keep what a model computes, made of edits: shapes, opset, BatchNormalization, float16."""
