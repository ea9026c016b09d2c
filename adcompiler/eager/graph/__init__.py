"""The graph that operations on Variables record, and the walk that propagates through it."""
