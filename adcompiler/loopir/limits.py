"""Thresholds of the loop IR: the unit of each, why it has this value, and what grows if it is larger."""

MOST_ATTEMPTS = 100  # attempts to parse, which run out of memory by turns if threads parse at once: time

MOST_NODES = 700  # nodes of an unrolled loop: code
# Nodes of an unrolled loop that compares its axis, as in blocks of a Jacobian: most of it folds then.
MOST_NODES_THAT_FOLD = 18_000
# Nodes of an expression with definitions in place of their variables, which then share nothing: time.
MOST_WRITTEN_OUT = 1000
MOST_LOW_TRIPS = 8  # iterations of an innermost loop; from 12 on kernels for long ones are faster
MOST_ITERATIONS = 32  # iterations of a loop that folds, including those inside: code

ITERATIONS_AT_ONCE = 4  # iterations of an outer loop that share loads: registers
MOST_STATEMENTS = 80  # statements of a loop's body, which is repeated: code
LEAST_GAIN = 1.25  # the least speedup of inner loops: smaller ones are not sure
MOST_JAMMED_COST = 12.0  # cost of the unshared part of an iteration in an inner loop: registers are few
MOST_INTERLEAVED_COST = 4.0  # cost of the computation of one of several iterations in order: registers
NOMINAL_TRIPS = 32  # the assumed iterations of an inner loop: the weight of what is inside

LONGEST_STRIP = 64  # iterations of a distributed loop between parts: space on the stack
SHORTEST_STRIP = 8  # the same where inner loops are long: two vectors of function calls
STRIP_POINTS = 2048  # points of the inner loops of a strip, which stay in the first-level cache
MOST_EXPANDED = 8  # values that the parts of a distributed loop pass on: loads and stores

MOST_VERSIONED = 1000  # nodes of an iteration that scatters, which is there twice: code

TILE_ITERATIONS = 16  # iterations: rows at a distance of a power of two map to few sets of a cache

LEAST_LANES = 4  # lanes of a vector: with fewer, loops are not vectorised
MOST_LANES = 16  # lanes of a vector: rows have space for so many
RECORD_ELEMENTS = 4  # elements of an interleaved record that LLVM still reads as vectors
LEAST_DEPTH = 2  # nested loops in an iteration that make lanes worthwhile
# Iterations of loops that sum functions up to which what is around them is a lane: more are gathered slowly.
MOST_LANE_TRIPS = 16
# Iterations of the innermost loops of windows up to which lanes sum them: long sums are vectors themselves.
MOST_WINDOW_TRIPS = 96
VECTORS_OF_SUMS = 4  # vectors of sums in a loop of windows: each addition waits for the one before; registers
MOST_WINDOW_STATEMENTS = 40  # statements of an iteration of such a loop: code
