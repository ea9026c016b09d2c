"""Device functions that CUDA kernels call, and the launch of kernels."""
