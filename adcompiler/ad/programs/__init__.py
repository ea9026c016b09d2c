"""Programs made by differentiation: forward and propagate, Jacobians, colourings, dual numbers."""
