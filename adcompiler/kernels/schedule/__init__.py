"""The choice and order of loop nests, and of the values that become arrays."""
