"""Kernels that follow counts, rows and windows through events in time order."""
