"""Worker processes beside Spark: packers and buckets run engines in resident processes and read blocks."""
