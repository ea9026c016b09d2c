"""From programs to loop nests and their statements."""
