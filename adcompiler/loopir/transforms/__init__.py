"""The transforms of the loop IR, which prepare loops for LLVM, and their order (`pipeline.py`)."""
