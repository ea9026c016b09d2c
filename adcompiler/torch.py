"""`import adcompiler.torch`: the module behind `adc.torch`."""

import sys

from adcompiler.interop import torch
from adcompiler.interop.torch import *  # noqa: F403  for type checkers

sys.modules[__name__] = torch
