"""One file per claim: it runs, prints a table, and leaves its figures as JSON in a folder (`_report.py`)."""
