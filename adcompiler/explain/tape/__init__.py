"""Drawings and checks of the recorded graph."""
