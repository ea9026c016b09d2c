"""Thresholds of kernels: the unit of each, why it has this value, and what grows if it is larger."""

BLOCK_POINTS = 8192  # points of a block: it stays in cache, and the error of a partial sum grows with it
SCAN_POINTS = 1024  # points of a block of a parallel scan, which runs all iterations of a loop
MOST_BLOCKS = 1024  # blocks of a nest: enough for all threads; each has a partial sum
MOST_WIDE_BLOCKS = 64  # blocks, where each has partial sums of a whole array: memory
# Blocks of whole vectors that are left for threads, where blocks are otherwise smaller than a vector.
FEWEST_BLOCKS = 8
LINE_NUMBERS = 8  # float64 numbers of a cache line: blocks that share one would write to it in turn
LINE_BYTES = 64  # bytes of a cache line, as most processors have
# Iterations of a block if lanes have their own sums, which each block clears and combines.
ADDING_ITERATIONS = 64
LONGEST_BLOCK = 2**62  # iterations of a block that is a whole loop, of a length that the program computes
# Points from which blocks run in parallel: fewer take less time than threads take to wake.
PARALLEL_POINTS = 65536
# Points of a block of a nest from which loops inside it poll: milliseconds until Ctrl-C.
POLLED_POINTS = 1 << 22

# Elements of a row that may be kept in registers, where its length is known; others are spilled.
SMALL_ROW = 64

MOST_OUTER_ELEMENTS = 200  # elements of a loop with loops inside that is cut: it has three bodies to compile
MOST_INNER_ELEMENTS = 220  # elements of an innermost loop that is cut: it has two bodies to compile
MOST_EDGE = 8  # iterations at one end of a loop that run with all conditions; loops that are cut grow longer

CACHE_BYTES = 1 << 21  # bytes that a nest moves from a cache of level 2; beyond, they come from memory
FUNCTION_WEIGHT = 60  # simple operations that an exponential or a tanh takes as long as
START_NANOSECONDS = 2  # to start and to end an innermost loop; if larger, more products are calls
LANES_DEPTH = 3  # nested loops of a nest whose iterations may be lanes, which start many loops at once
# Nanoseconds of a multiplication and its addition in a matrix product, as measured with AVX2. In loops they
# are nominally 0.2. If larger, fewer products are chosen; so for the next four.
PRODUCT_NANOSECONDS = {"f64": 0.05, "f32": 0.025}
PACKING_NANOSECONDS = 0.2  # nanoseconds to pack an element of a factor, as measured
UPDATE_NANOSECONDS = 25  # nanoseconds to start a strip of a panel and to add it to the result, as measured
CALL_NANOSECONDS = 100  # nanoseconds of a call for a tile, as measured
STRIP_ROWS, PANEL_COLUMNS = 6, 8  # rows and columns of a strip of a panel; half of these are a vector
# Time of matrix products as calls by that of their points in loops, from which loops run whatever the rest of
# the program takes: calls fill tiles with zeros then, as with three terms. It saves predictions.
CLEARLY_SLOWER = 2.0
# Points of a block of tiles of a contraction: tiles in a row share what is packed; fewer blocks for threads.
TILES_POINTS = 1 << 19
# Places of the last axes of a group that tiles do not cut, such as those of a window: tiles are smaller.
WHOLE_PLACES = 32
SAMPLED_POINTS = 1 << 16  # points of nested loops that are sampled to count iterations: time of a decision

# Characters of a value that is written where it is used once: beyond, it has a line of its own.
INLINE_WIDTH = 60

MOST_SWITCHES = 2  # conditions by which a loop is unswitched: each doubles the code

MOST_STORES = 24  # stores of one iteration in a carried array that are followed: compile time is their square
MOST_CASES = 2  # conditions that are examined in both cases: each doubles the time of the proof

MOST_PLACES = 8  # places in a row that are read beside each other: each is a case of the kernel
# Schedules that store values which are computed again, then values made of these, and so on: compile time.
MOST_ROUNDS = 8
