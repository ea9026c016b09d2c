"""C99 source: the loop IR printed as C, and the functions that call it from C and from CasADi."""
