"""The table of primitives, and the costs and decompositions of operations."""
