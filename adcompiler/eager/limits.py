"""Limits of the tape: the unit of each, why it has this value, and what grows if it is larger."""

# Operations of a deferred graph, which is cut there; time to compile an aggregate grows faster than they.
MOST_OPERATIONS = 200
MOST_SITES = 20_000  # operations that a fused function has learned before it forgets them all: memory
FEWEST_OPERATIONS = 3  # operations that are worth a kernel: fewer gain less than the call of one costs
MOST_PLANS = 20  # plans for the results that are held at one place: kernels to compile

MOST_NAMED = 3  # leaves that a message names: its length

# Bits of a mask of leaves, a prime, as serial numbers come in steps; fewer collide if it is larger.
MASK_BITS = 1021
MOST_TAKEN = 256  # values taken out of Variables that are remembered to explain a None: memory

FEWEST_REFERENCES = 32  # views of a root before references to dead ones are dropped: memory of these
