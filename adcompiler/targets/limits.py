"""Limits of targets: the unit of each, why it has this value, and what grows if it is larger."""

SMALLEST_BYTES = 1 << 16  # bytes from which an array is kept: the allocator caches smaller ones
LARGEST_BYTES = 1 << 62  # more bytes than any memory has: NumPy's size would overflow
MOST_BYTES = 1 << 28  # bytes of arrays that are kept, idle and in use: memory that the process holds
MOST_ARRAYS = 64  # arrays that are kept: each call searches them
LINE_BYTES = 64  # bytes of a cache line, and of the longest vectors

# Bytes of an argument on the host from which a notice says that it is copied in each call.
NOTICE_FROM = 2**20

GRAIN_BYTES = 512  # bytes to which allocations are rounded, so that memory of one fits the next: waste
SPARE_SHARE = 8  # spare memory is at most this part, one eighth, of the device's

MOST_LINES = 32  # lines of all copies of an unrolled body, except stores: registers
LINES_OF_A_CALL = 12  # lines that a call of a function counts as: it needs many registers
MOST_COPIES = 4  # copies of the body of a loop: registers

MOST_TILED_READS = 8  # reads of a loop from shared memory: with more, fewer blocks fit a multiprocessor
WIDE_TILE_BYTES = 2**15  # bytes of wide tiles: with the others they fit every device's limit for a block
FEWEST_TILE_ITERATIONS = 8  # iterations of a wide tile: fewer need too many barriers

FEWEST_SLICE_ITERATIONS = 32  # iterations of a slice of a loop: fewer cost more to combine than they save
MOST_SLICES = 1024  # slices of a loop: memory of partial sums

FEWEST_CAPTURED_ITERATIONS = 4  # remaining iterations from which capturing a graph pays

FEWEST_CALLS = 5  # calls of a kernel that is timed, whatever they take
MOST_CALLS = 1000  # calls of a kernel that is timed, of which the least is taken: time

MOST_THREADS = 1024  # threads of a call: the pool has a record for each

# Predicted time of calls by that of loops, from which loops run: these rarely reach theirs.
CALLS_SLOWER = 1.15
# The same where loops skip the zeros of triangles: their lanes are faster than predicted.
BOUNDED_CALLS_SLOWER = 0.75
# The least part of a product that loops run where conditions bound them: half, as in a triangle. If it were
# larger, calls would be chosen where loops are faster; if smaller, more programs would be scheduled twice.
BOUNDED_SHARE = 0.5
# The same where products leave loops in which an iteration multiplies a matrix of several rows, not a vector:
# there it reads the other matrix once for all rows.
LOOP_CALLS_SLOWER = 0.9
# Multiplications of such products from which times are predicted: fewer save less than 0.1 ms of a call, and
# a prediction takes 50 ms once.
FEWEST_LOOP_POINTS = 1 << 19
# Elements of arrays over all iterations of loops that products outside of these need: memory, 32 MiB.
MOST_STORED = 1 << 22
MOST_KNOWN = 8  # programs specialised for short lengths, each compiled; other lengths have the general one
