"""From text to a tree: the parser, its limits, and messages for what does not parse."""
