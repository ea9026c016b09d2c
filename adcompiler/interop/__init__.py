"""Arrays and compilers of other libraries, a module or folder for each library."""
