"""SlangPy's calling styles: `call`, `forward` and `backward` with pairs of primal and derivative."""
