"""Output: workers stage changes as files, and the driver delivers them micro-batch by micro-batch."""
