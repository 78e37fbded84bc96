"""What all indexes stand on: compiled kernels, vector instructions, threads, memory, and sets of queries per row."""
