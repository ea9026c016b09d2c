"""The rules of differentiation, program to program: reverse mode, forward mode, Taylor mode."""
