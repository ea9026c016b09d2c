"""Programs as users write them, which nobody tunes for: where are the cliffs?

One file a field, each with a tuple `PROGRAMS`.
"""

from __future__ import annotations

from importlib import import_module

from bench.cliffs.program import Program

FIELDS = (
    "statistics", "learning", "physics", "robotics", "series", "images", "graphs", "finance", "geometry",
    "algorithms", "single",
)  # fmt: skip


def every() -> dict[str, Program]:
    """All programs by name, in the order of the fields."""
    modules = [import_module(f"bench.cliffs.{field}") for field in FIELDS]
    return {program.name: program for module in modules for program in module.PROGRAMS}
