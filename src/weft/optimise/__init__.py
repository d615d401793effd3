"""Passes on the loop language that keep its meaning."""
