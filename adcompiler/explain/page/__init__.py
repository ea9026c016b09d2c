"""The explorer: one page that shows a program at every stage, and where each part of it comes from."""
