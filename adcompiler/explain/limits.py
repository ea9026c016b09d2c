"""How much explanations show: the unit of each, why it has this value, and what grows if it is larger."""

LONGEST_OPERAND = 60  # characters of an operand in a message: what fits in a line beside its value
MOST_OPERANDS = 4  # operands of an operation that a message lists: lines

MOST_PATTERNS = 8  # patterns of None of which a page shows the program: they double with each gradient
MOST_LISTED = 2000  # lines of a listing in a page: browsers take long to lay out more

MOST_EMBEDDED = 120  # elements of a program of which notebooks show the page: the size of the notebook's file

MOST_READERS = 3  # readers that a reason lists: its length

MOST_ENTRIES = 200  # entries of a drawing, which is cut there: larger ones are not readable

# Layers over which an arrow from a leaf goes; beyond, the leaf is drawn again where it is read.
FAR_LAYERS = 4

SPARSE_BITS = 10  # bits of a mask of leaves that is believed: with ten of 1021, one in a hundred is wrong

MOST_HOLDERS = 10  # holders of a graph that a report lists: its length
DEEPEST_HOLDER = 4  # containers inside each other that are searched for who holds a graph: time

MOST_CUTS = 3  # places that cut a gradient which an explanation lists: its length
MOST_STEPS = 8  # steps of a path in an explanation; the middle of a longer one is left out
STEP_COLUMNS = 40  # columns of a step before its place
