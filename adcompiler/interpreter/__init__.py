"""The reference interpreter on NumPy, and other interpretations of programs."""
