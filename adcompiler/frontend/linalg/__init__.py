"""Matrix products, `einsum` and linear algebra in the language."""
