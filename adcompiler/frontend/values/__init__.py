"""What names stand for during lowering, and the elementary operations on it."""
