"""Nenwin, after Lulof Pirée's logbook of 2021: a network whose signals are particles that move under forces.

`python -m examples.nenwin train` trains it on handwritten digits; docs/nenwin.md says what it does.
"""
