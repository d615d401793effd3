"""Tensors: expressions with values, gradients and code."""
