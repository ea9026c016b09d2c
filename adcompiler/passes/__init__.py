"""Passes from program to program; `pipeline.py` lists them in order."""
