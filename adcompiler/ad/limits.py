"""Thresholds of differentiation: the unit of each, why it has this value, and what grows if it is larger."""

# Conditions of the reads of an array, beyond which it counts as always read; the guard has all of them.
# Conditions of the guards of one value, which are united by cases: compile time is exponential.
MOST_CONDITIONS = 8

# Factors that are written out for each other's derivative: work is the square of it, without two scans.
SHORT_AXIS = 4

# Elements of a row that is collected whole in each iteration; the stack is as many times larger.
SHORT_ROW = 8

# Stores of an iteration in an array, beyond which its reverse reads a copy of the array rather than put back
# what they overwrote; conditions grow with it.
MOST_RESTORED = 8

# Stores that a read in the reverse of an iteration looks through, to find what was stored at its place;
# behind more of them, the forward pass saves the element. Comparisons grow with stores times reads.
MOST_LOOKED_THROUGH = 3

TAYLOR_ORDER = 3  # the order from which Taylor mode has fewer operations than nested forward mode

MOST_TRIED = 32  # numbers of lone rows that are compared: each takes one pass over the entries of the pattern

MOST_FAMILIES = 1024  # families of entries of a program: each is a result, and more take long to compile
MOST_APART = 32  # families of an array that are not added up, nor its values stored: compile time
LEAST_STORED = 8  # elements of a value that readers at several places read from an array: time of kernels
# Positions of an axis that have a family each: states of a system and small matrices; families grow with it.
MOST_UNROLLED = 32
MOST_UNROLLED_TOGETHER = 512  # positions of several axes that have a family each: families

# Elements of an array that the forward pass saves instead of others, counted this many times: it also has to
# compute it, so saving one is worth it only if it is clearly smaller.
LEAST_SAVING = 1.25

# Elements of which bounds are computed for those of one array; all others may be any number.
MOST_BOUNDED = 4096

MOST_GUARD_ELEMENTS = 100  # elements of a cotangent's guard that each reader of it repeats: compile time
