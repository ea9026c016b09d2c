"""Passes that rewrite elements: folding, terms, powers, roots, factors."""
