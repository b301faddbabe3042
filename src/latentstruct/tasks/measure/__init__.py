"""Label vectors that are trained for a multivariate measure."""
