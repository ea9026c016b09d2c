"""Arrays and compilers of other libraries, one module or folder per library."""
