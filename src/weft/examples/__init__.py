"""Whole programs, as a user of weft would write them; `weft demo` lists and runs them."""
