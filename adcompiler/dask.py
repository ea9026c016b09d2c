"""`import adcompiler.dask`: the module behind `adc.dask`."""

import sys

from adcompiler.interop import dask
from adcompiler.interop.dask import *  # noqa: F403  for type checkers

sys.modules[__name__] = dask
