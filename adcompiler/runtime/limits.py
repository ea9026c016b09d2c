"""Limits of calls and reports: the unit of each, why it has this value, and what grows if it is larger."""

MOST_ITEMS_APART = 8  # items of a list that are arguments of their own: each number of items is a program

MOST_PRINTED = 12  # elements of an array that `print` writes out; of others it writes a summary

# Lengths of calls with a fast path: each is a table, and making it takes longer than a call.
MOST_FAST_PATHS = 100

MOST_CONSTANTS = 256  # elements of an array that stands in a program as constants: code

MOST_COTANGENTS_BRANCHED = 3  # cotangents up to which every pattern of None has a branch: they are 2**n

CEILING_SECONDS = 0.05  # seconds of each measurement of the machine: more are steadier
POLYNOMIAL_DEGREE = 16  # the degree of the polynomial that measures arithmetic: loads are few beside it
# Recurrences side by side that measure arithmetic without vectors: enough to hide latency.
PARALLEL_CHAINS = 8

KERNEL_SECONDS = 0.2  # seconds of calls of each kernel: more are steadier
# The part of the least time below which a measurement says that the machine is faster than its ceilings.
FAST_SHARE = 0.9

MOST_CUTS = 3  # places that an explanation shows: its length

# Seconds of a nest from which it is said why it runs on one thread: waking others takes as long.
THREAD_SECONDS = 4e-5
SHORT_SECONDS = 2e-6  # seconds of a nest below which starting its loops takes most of its time
# Seconds in which an innermost loop starts and ends: its first vector and the sum of its lanes are awaited,
# and the jump out of it is predicted wrong. Nests of short sums take 2 to 10 ns for each.
LOOP_SECONDS = 6e-9
FEW_ITERATIONS = 64  # iterations of an innermost loop below which starting it may take as long as they do
LARGE_PART = 1 / 3  # the part of the time beyond the roofline that a reason must explain
