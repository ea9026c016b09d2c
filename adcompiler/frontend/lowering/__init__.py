"""From a tree and the kinds of its arguments to a program: statements, expressions, loops."""
