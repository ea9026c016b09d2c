"""Thresholds of passes: the unit of each, why it has this value, and what grows if it is larger."""

# Conditions around an element from which proofs follow: compile time is their square.
MOST_FACTS = 24

# The exponent of a power that is multiplied out: at most six products, faster than `pow`.
LARGEST_EXPONENT = 16

# Elements of a map that is computed again at a place that is read; work of each read.
MOST_ELEMENTS_AGAIN = 16

SMALLEST_DIVISOR = 1e-30  # the least constant that becomes a reciprocal: float32 is normal from 1e-38 on

MOST_ROOTS = 32  # factors and products of factors under roots that are examined: compile time

# Factors of a product, and terms of a sum, that are compared with each other: compile time is the square.
MOST_FACTORS = 16
# Numbers of cores and their reciprocals: products of several stay in the range of float32.
LARGEST_NUMBER = 2.0**10

# Simple operations over one long axis that a loop over another one repeats: an array costs as much.
MOST_REPEATED = 12
# The same over two long axes or more, which a third one repeats: an array is filled once for many passes.
MOST_REPEATED_PAIRS = 6

# The same of an element that one reader needs at several places, such as the neighbours of a point, together:
# an array costs a store and a pass.
MOST_REPEATED_BESIDE = 16
MOST_REPEATED_RESULT = 2  # of a result, which is stored in any case
LEAST_CONDITIONS = 64  # elements of an array of conditions that counts as work, one operation each
LEAST_REPEATED = 4  # operations of an element for which its places are counted: compile time

MOST_SUM_TERMS = 16  # terms of a sum that are compared with each other: compile time is the square

# Elements of an axis that is written out: coordinates of points, colours, quaternions; code grows.
MOST_COORDINATES = 4
MOST_MADE_ELEMENTS = 400  # elements that unrolling an array may create: compile time
MOST_STATES = 32  # elements of an axis where most terms are zero, as in entries of derivatives: compile time
MOST_WRITTEN_ELEMENTS = 20_000  # the elements that this may create

# Iterations of a loop with a pass over blocks each; of all nested loops, five times as many; tasks.
MOST_ITERATIONS = 100

# Points of an array over its longer axes, from which a kernel for the short ones pays its compilation.
LEAST_POINTS = 64

# Rows, columns and terms of a product that is a call: shorter ones are padded. More stay loops.
SHORTEST_LENGTH = 8
SHORTEST_PACKED_LENGTH = 2  # rows or columns of a product of windows: what is packed is used as often
KERNEL_POINTS = 2**15  # points from which a product is worth a call, and a kernel of its own to compile
CASE_POINTS = 2**12  # points of each case of a batched product: each case is a call
LOOP_POINTS = 2**12  # the same of a product that iterations of a loop compute: the kernel is compiled anyway
CALL_POINTS = 2**20  # points from which a product is worth a call beside the kernel that exists
CERTAIN_INTENSITY = 64  # points for each element that only calls store, from which they are always faster
# Size of the result by that of both factors: storing a larger one costs more than the product.
MOST_RESULT_RATIO = 8

# Iterations of the outer loop from which adding rows pays: the sums are cleared and combined.
FEWEST_OUTER_ITERATIONS = 512
SHORTEST_SUM = 16  # elements of a sum: two vectors at a time
LONGEST_SUM = 1 << 14  # elements of a sum that stay in the cache of level 2, 128 KiB
LONGEST_WIDE_SUM = 1 << 12  # elements of a sum over several axes, each of which may be a vector
FEWEST_WIDE_ITERATIONS = 32  # iterations from which it pays for such a sum
# Elements of such a sum for each iteration: clearing more costs more than the iterations save.
ELEMENTS_AN_ITERATION = 4

MOST_LOOKED_THROUGH = 8  # arrays, one read by the next, that are looked through for zeros: compile time

FEWEST_POINTS = 64  # iterations of the innermost loop, usually points, from which bounds of triangles pay
FEWEST_ROWS = 32  # rows of a triangle, times matrices, from which they pay
MOST_MATRICES = 16  # matrices that count for this: further ones make no difference

SHORTEST_SPLIT = 16  # iterations up to which a loop of constant length is kept whole: what it saves is small

FEWEST_SPLIT_ITERATIONS = 16  # iterations from which a nest before the loop pays its array

# Stores of an iteration in one array that are compared with each other: compile time is the square.
MOST_STORES = 32

# Selections between sums of one array that are looked through: those of stores may be twice as many for each.
MOST_SELECTED_SUMS = 1024
MOST_SUMMED_STORES = 150  # stores of an iteration in one array that are looked through: compile time

# Places that share a row, from which a product over rows is computed instead of one over places: its rows are
# stored, and those that no place needs are computed too.
FEWEST_PLACES_A_ROW = 2
# Multiplications that take as long as gathering an element, or adding one, at a computed place.
PLACED_OPERATIONS = 4
