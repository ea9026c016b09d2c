"""`adc.optim`: PyTorch's optimisers, on Variables and on containers of arrays."""

from adcompiler.optim.adam import Adam, AdamW
from adcompiler.optim.optimizer import Optimizer
from adcompiler.optim.sgd import SGD

__all__ = ["SGD", "Adam", "AdamW", "Optimizer"]
