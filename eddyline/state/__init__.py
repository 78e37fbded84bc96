"""What operators remember: changes on edges, runs of rows by key, timelines of coming events. No host in sight."""
