"""Which operator next: statistics and tickets. Nothing here knows an operator; operators ask and report."""
