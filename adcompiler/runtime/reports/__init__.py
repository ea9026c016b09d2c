"""Reports about a function: `show`, `explain`, costs."""
