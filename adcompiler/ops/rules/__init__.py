"""The entries of the table: each primitive with its partial derivatives and references."""
