"""Indexes: pure kernels over arrays, and the growable structures that own those arrays."""
