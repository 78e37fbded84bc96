"""What comes in: sources, the files Spark lists, and the checks that rows pass."""
