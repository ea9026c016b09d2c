"""Limits of public functions: the unit of each, why it has this value, and what grows if it is larger."""

MANY_ENTRIES = 1000  # entries of an argument that finite differences move one by one: two calls each
RANDOM_DIRECTIONS = 8  # directions through an argument with more entries: two calls each
MOST_STEPPED_ENTRIES = 64  # entries of an argument that complex steps visit: each interprets the program once
FEWEST_STEPPED_ENTRIES = 8  # entries of a large argument that complex steps visit in any case
MOST_STEPPED_POINTS = 2**22  # entries visited times entries of the argument: the time of a check
# How much further than the rounding of an argument moves a derivative it may be off; errors may hide.
NOISE_FACTOR = 100.0

# Elements of each axis of a sample that a user's rule is tried on: not 1 or 2, which broadcast or pair.
SAMPLE_LENGTH = 3

# A step by the scale of its argument: two extrapolations leave an error of its sixth power.
RELATIVE_STEP = 6e-3
# The relative uncertainty at which extrapolation ends, far below the errors that are looked for.
CERTAIN = 1e-9

# Steps of NumPy's search for an element that two buffers share; it is exponential in the rank.
MOST_WORK = 100_000

# Pairs inside each other: a program of order n has 2**n results for each of the function.
MOST_NESTED_PAIRS = 6

SEED_ENTRIES = 2**22  # entries of the seeds of one run, 32 MiB: with more directions there are several runs
MOST_COLORINGS = 8  # colorings that a program keeps: each holds a pattern, as large as the derivative

MOST_LAYOUTS = 8  # layouts that a program keeps: each holds the places of all entries

MOST_COEFFICIENTS = 20  # the order of a Taylor polynomial: operations grow with its square

RTOL = 1e-6  # the relative error of a user's derivative beside finite differences; above their own error
SAMPLES = 5  # places of each parameter at which a user's derivative is tried: calls grow with it
