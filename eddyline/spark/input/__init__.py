"""Input: sources, the files that Spark lists, and the checks of rows."""
