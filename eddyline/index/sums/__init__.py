"""Exact sums of doubles."""
