"""From a tree and argument types to a program: statements, expressions, loops."""
