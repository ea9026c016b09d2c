"""Values during lowering, and the elementary operations on them."""
