"""`import adcompiler.optim` and `from adcompiler.optim import Adam`: the module behind `adc.optim`."""

import sys

from adcompiler.runtime import optim
from adcompiler.runtime.optim import *  # noqa: F403  for type checkers

sys.modules[__name__] = optim
