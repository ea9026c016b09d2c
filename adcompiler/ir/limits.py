"""How texts of the IR are laid out: unit, reason, and what grows if a limit is larger."""

LABEL_WIDTH = 60  # columns of a label in a drawing
LABEL_LINES = 8  # lines of a label in a drawing

TALLEST_EXPRESSION = 4  # operations inside each other on a line; beyond, an element has a line of its own
MOST_COLUMNS = 100  # columns of an array that is printed on one line
MOST_LENGTH_LETTERS = 24  # letters of a length in a message; a longer expression is left out

# Brackets inside each other in a text: the reader is recursive, and Python's stack ends at 1000 calls.
MOST_DEPTH = 100

# Elements below another one that are kept with it once they are listed, for the next walk. If it were larger,
# programs of many long expressions inside each other would take more memory.
MOST_KEPT_BELOW = 1000
