"""What compiled code needs while it runs: the JIT, calls, thread pool, interrupts."""
