"""Machines and compilers that run kernels, a folder for each."""
