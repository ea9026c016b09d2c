"""The runtime of compiled code: the JIT, calls, thread pool, interrupts."""
