"""Keys and texts as dense numbers, runs of equal keys in sorted arrays, and buckets."""
