"""Indexes: pure kernels over arrays, and the growable structures that own those arrays."""

from eddyline.index.kernel_cache import keep_kernels

keep_kernels()
