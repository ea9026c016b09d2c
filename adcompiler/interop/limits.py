"""Limits of what other libraries get: unit, reason, and what grows if they are larger."""

# Partial sums of blocks that one task joins: memory of the task; with fewer, there are more tasks.
MOST_PARTS_JOINED = 8

# Operations of a formula that a notebook shows with each function: time of SymPy.
MOST_SHOWN_OPERATIONS = 120
MOST_OPERATIONS = 2000  # operations of a formula that is asked for: time of SymPy
