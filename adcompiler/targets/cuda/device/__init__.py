"""What CUDA kernels call and what launches them."""
