"""`from adcompiler import *` needs no extra: it gives what `dir` lists but for the modules of extras."""

import subprocess
import sys

import adcompiler as adc

WITHOUT_EXTRAS = """
import sys
sys.modules |= dict.fromkeys(("torch", "jax", "dask", "typer", "IPython"))  # importing them fails
from adcompiler import *
f = compile("x**2")
print(f(3.0), grad(f)(3.0))
"""


def test_a_star_import_where_no_extra_is_installed() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT_EXTRAS], capture_output=True, text=True)
    assert (done.returncode, done.stdout.split()) == (0, ["9.0", "6.0"]), done.stderr
    assert {*dir(adc)} >= {*adc.__all__, "dask", "torch"}
