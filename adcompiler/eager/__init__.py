"""Variables: operations that run at once and are recorded for reverse mode."""
