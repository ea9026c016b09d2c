"""Calls: arguments, specialised programs, reports."""
