"""The benchmark suite: our kernels beside those written by hand and those of other compilers."""
