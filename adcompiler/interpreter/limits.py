"""Limits of interpretation: the unit of each, why it has this value, and what grows if it is larger."""

# Bytes of what the iterations of a loop carried; beyond, some are kept and others run again.
MOST_BYTES = 2**28
MOST_FRAMES = 4  # iterations of a loop of which all arrays are held, as the search goes back by one: memory

MOST_VISITS = 500  # elements that the search for a NaN visits: each may interpret iterations again
MOST_STARTS = 16  # elements of a result from which the search begins: time

BLOCK_POINTS = 2**24  # points that are computed at once, 128 MiB for each element: memory
LARGEST_POINTS = 2**59  # points that no memory holds: below, NumPy raises MemoryError; above, ValueError

MOST_POINTS = 2**28  # points of a domain, or dependences, that are followed: 2 GiB of indices
MOST_FOLLOWED = 1024  # iterations of a loop that are followed one by one; beyond, all depends on all; time

MOST_STEPS = 64  # complex steps in one pass over the program: memory
MOST_STEPPED_ENTRIES = 2**13  # entries of the arguments of all steps of a pass: memory of each array
