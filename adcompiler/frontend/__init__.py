"""From text to a program: grammar, values, builtins and lowering."""
