"""`adc.optim`: PyTorch's optimisers, on Variables and on containers of arrays."""

from adcompiler.runtime.optim.adam import Adam, AdamW
from adcompiler.runtime.optim.optimizer import Optimizer
from adcompiler.runtime.optim.sgd import SGD

__all__ = ["SGD", "Adam", "AdamW", "Optimizer"]
