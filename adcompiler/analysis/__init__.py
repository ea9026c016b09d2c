"""Facts about programs: affine forms, intervals, predicates, regions, demand, the order of loops."""
