"""The Greeks of examples/black_scholes.py are those of textbooks."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import pytest


@pytest.fixture(scope="module")
def example(imported):
    return imported("examples.black_scholes")


def test_all_greeks_agree_with_closed_forms(capsys, without_bar, example):
    example.main(["--options", "60000"])
    compiled, found, compared = capsys.readouterr().out.splitlines()
    assert compiled.startswith("the programs are compiled or loaded in ")
    assert found.startswith("60,000 prices with 20 Greeks each in ")
    assert float(compared.split()[5]) < 1e-13


def test_the_price_is_homogeneous(example):
    """Twice the spot and strike give twice the price: Euler's relation."""
    options = example.book(100)
    found = example.greeks(options)
    spot, strike = options["spot"], options["strike"]
    assert spot * found["spot",] + strike * found["strike",] == pytest.approx(found[()], abs=1e-12)
    mixed = spot * found["spot", "spot"] + strike * found["spot", "strike"]
    assert np.abs(mixed).max() < 1e-13


@pytest.mark.skipif(find_spec("matplotlib") is None, reason="needs matplotlib")
def test_draws(tmp_path, example):
    example.draw(tmp_path / "found.png")
    assert (tmp_path / "found.png").read_bytes()[:4] == b"\x89PNG"
