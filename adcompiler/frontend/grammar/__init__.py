"""From text to a tree: the parser, its limits, and messages for syntax errors."""
