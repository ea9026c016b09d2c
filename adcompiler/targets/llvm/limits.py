"""Limits of LLVM's code: the unit of each, why it has this value, and what grows if it is larger."""

POLL_ELEMENTS = 1 << 16  # elements between two polls of a program loop: 20 µs to a few milliseconds
STRIP_ELEMENTS = 1 << 19  # elements of a strip of a nest's loop, which runs without a poll: time
STRIP_ITERATIONS = 16  # iterations of a strip: lanes of vectors
# Iterations of a strip if each lane has separate sums, which each strip clears and combines.
SUM_STRIP_ITERATIONS = 64
SIGNAL_NANOSECONDS = 20_000_000  # nanoseconds between two checks for signals: until Ctrl-C

# Nanoseconds from which the rest of a region takes on one thread, to wake sleeping threads.
WAKE_NANOSECONDS = 40_000
SPIN_NANOSECONDS = 200_000  # nanoseconds for which a thread spins before it sleeps: processor time

STACK_ELEMENTS = 1 << 14  # elements of an array on the stack, such as a packed factor: memory of a thread
LOW_TRIP_LANES = 4  # lanes of vectors in a kernel for low trip counts
UNKNOWN_ITERATIONS = 1 << 10  # assumed iterations of a loop of unknown length: polls get rarer
VECTORS_OF_CALLS = 2  # vectors at a time in loops that call functions: registers
# Vectors at a time in reduction loops, by their maximum number of operations: registers.
INTERLEAVED = {4: 12, 2: 32}
SHARING_BYTES = 1024  # bytes: rows at multiples of this map to at most four sets of the L1 cache
MOST_STRIDE = 4  # elements from one lane to the next in vectors that are loaded whole: each is a load of one
MOST_MASKED_STRIDE = 2  # the same where lanes may be inactive: each load needs a mask of its own
LEAST_DIVISOR = 8  # constant divisor of a counter from which it is counted in strips: a vector of numbers
MOST_INLINED = 64  # operations of a function that is inlined: code

# Characters of a module of LLVM IR that is compiled apart, by another thread: about 50 ms to compile.
PART_CHARACTERS = 1 << 14
HIGHEST_LEVEL = 3  # of LLVM's optimisation: time to compile
MOST_LIBRARIES = 16  # libraries of a linker, which retains 10 KB for each: memory
MOST_WORDS = 256  # words of a kernel, and of a fast path's outputs: a table on the stack
