"""From loop IR to LLVM."""
