"""From a schedule to the source of CUDA kernels."""
