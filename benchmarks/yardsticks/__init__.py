"""Structures of documents 4 and 5 that the product does without; benchmarks measure it against them."""
