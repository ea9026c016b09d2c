"""Limits of proofs: the unit of each, why it has this value, and what grows if it is larger."""

# Terms of a linear form, and steps of a proof; what is longer counts as unknown; compile time grows.
MOST_TERMS = 32

MOST_ELEMENTS = 2**57  # elements of an axis: addresses in bytes stay below 2**63, so int64 cannot overflow

# Iterations of a loop that is written out in kernels: fewer than a vector has lanes; code grows with it.
SHORT_ITERATIONS = 7
MOST_THAT_FOLD = 16  # the same if it compares its counter, as in blocks of a Jacobian: most of it folds

# The greatest size at which an expression that is evaluated at all sizes may change its slope: compile time.
LAST_BREAK = 256
