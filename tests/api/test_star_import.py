"""The package where no extra is installed: a star import, and what looks at all names of it."""

import subprocess
import sys

import pytest

import adcompiler as adc

WITHOUT_EXTRAS = """
import sys
sys.modules |= dict.fromkeys(("torch", "jax", "dask", "typer", "IPython"))  # importing them fails
from adcompiler import *
f = compile("x**2")
print(f(3.0), grad(f)(3.0))
"""


LOOKED_AT = """
import inspect, pydoc, rlcompleter, sys
sys.modules |= dict.fromkeys(("torch", "jax", "dask", "typer", "IPython"))
import adcompiler as adc
assert not hasattr(adc, "torch")
assert getattr(adc, "torch", None) is None
assert "torch" not in dir(adc) and "grad" in dir(adc)
assert "value_and_grad" in dict(inspect.getmembers(adc))
assert "value_and_grad" in pydoc.plain(pydoc.render_doc(adc))
complete = rlcompleter.Completer({"adc": adc}).complete
assert complete("adc.to", 0) is None and complete("adc.val", 0).startswith("adc.value_and_grad")
"""
ASKED_FOR = "adcompiler.torch", "from adcompiler import torch", "import adcompiler.torch"


def run(script: str) -> tuple[int, str, str]:
    """The exit status, output and errors of a script in a process of its own."""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


def test_a_star_import_where_no_extra_is_installed() -> None:
    status, out, err = run(WITHOUT_EXTRAS)
    assert (status, out.split()) == (0, ["9.0", "6.0"]), err
    assert {*dir(adc)} >= {*adc.__all__, "dask"}


def test_help_and_completion_where_no_extra_is_installed() -> None:
    assert run(LOOKED_AT) == (0, "", "")


@pytest.mark.parametrize("how", ASKED_FOR)
def test_who_asks_for_a_missing_library_reads_what_to_install(how: str) -> None:
    status, _, err = run(f"import sys; sys.modules['torch'] = None\nimport adcompiler\n{how}")
    assert status == 1
    assert err.rstrip().endswith('PyTorch is not installed\n  help: pip install "adcompiler[torch]"')
