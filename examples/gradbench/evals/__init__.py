"""GradBench's evals: a module for each, and its formulas in the language of adcompiler beside it."""
