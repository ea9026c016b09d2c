"""Limits of sources: the unit of each, why it has this value, and what grows if it is larger."""

CHARACTERS = 1_000_000  # of a source; time to scan it
TOKENS = 200_000  # of a source; time to parse it
BRACKETS = 200  # ( and [ inside each other: the scanner's and the parser's stacks
BLOCKS = 100  # indented blocks inside each other: what is lowered inside of what
TOWER = 1_000  # operators that group to the right: 2**2**2, - - -x, not not x, a if b else c if d else e
IDENTIFIER = 1_000  # characters of a name, which messages repeat
NUMBER = 1_000  # digits of a number: time to convert it is their square

MOST_FAULTS = 20  # lines outside of the language that one error lists: each parses the source again

MOST_ITEMS = 10_000  # items of a list or tuple that is known at compile time: each is a node

MOST_ORDERS = 20  # the order of a derivative inside the language: operations grow with its square

# Times that the types of what a loop carries may change until they agree: each lowers the body again.
MOST_WIDENINGS = 8
MOST_UNROLLED = 4  # iterations up to which a loop of constant length is written out: code
MOST_UNROLLED_SHAPES = 32  # the same if iterations change shapes, as `s = s[::2]`, which no other loop can
MOST_PARTS = 16  # names in one with dots that may be of a module: each attribute of a chain asks

MOST_RESULTS = 10_000  # arrays and numbers that a function returns: each is an argument of the kernel

CALL_DEPTH = 100  # calls inside each other: lowering one is a call in Python, whose stack ends
MOST_CALLS = 10_000  # calls of a program, each of which is inlined: compile time
MOST_BRANCHES = 10_000  # branches with a return, each of which repeats the code behind it: compile time
# Iterations with a `break` that stand inside each other where a loop is written out: Python's stack.
MOST_NESTED = 50

MOST_AXES = 32  # axes of an array: what NumPy has before 2.0
# Bits of constants that are computed exactly; beyond they are floats: 9**9**9 would not end.
INTEGER_BITS = 4096
