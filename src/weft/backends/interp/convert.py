"""Conversions between element types: those of `weft.ops.convert`."""

from weft.ops.convert import constant, convert

__all__ = ["constant", "convert"]
