"""Which loop nests there are, in which order, and which values become arrays."""
