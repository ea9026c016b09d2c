"""Machines and compilers that run kernels, one folder each."""
