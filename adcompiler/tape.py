"""`import adcompiler.tape` and `from adcompiler.tape import grad`: the module behind `adc.tape`."""

import sys

from adcompiler.runtime import tape
from adcompiler.runtime.tape import *  # noqa: F403  for type checkers

sys.modules[__name__] = tape
