"""`adc.load` of what cannot be read: an error of adc's own that says what would mend it."""

from __future__ import annotations

import os

import pytest

import adcompiler as adc


def test_a_missing_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.adc").write_text("x")
    with pytest.raises(adc.FileError, match=r"no file modle\.adc\n  help: did you mean model\.adc\?"):
        adc.load("modle.adc")
    with pytest.raises(adc.Error, match=rf"no file nowhere/else\.adc\n  help: the folder here is {tmp_path}"):
        adc.load("nowhere/else.adc")
    with pytest.raises(adc.Error, match=r"there is no file model\.adc/x\.adc"):
        adc.load("model.adc/x.adc")
    with pytest.raises(adc.Error, match=r"file x \* y\n.*for a program as text use compile"):
        adc.load("x * y")


def test_it_is_an_error_of_files_as_well(tmp_path):
    with pytest.raises(OSError, match="there is no file"):
        adc.load(tmp_path / "a.adc")


def test_a_folder(tmp_path):
    with pytest.raises(adc.FileError, match="is a folder\n  help: name a file in it"):
        adc.load(tmp_path)


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read(tmp_path):
    (tmp_path / "a.adc").write_text("x")
    (tmp_path / "a.adc").chmod(0)
    with pytest.raises(adc.FileError, match="Permission denied\n  help: choose a file that you can read"):
        adc.load(tmp_path / "a.adc")


@pytest.mark.parametrize("name", ["a\0b.adc", "a" * 5000])
def test_a_path_that_cannot_be(name):
    with pytest.raises(adc.FileError, match="cannot read"):
        adc.load(name)


@pytest.mark.parametrize("given", [1.5, None, ["a.adc"]])
def test_no_path(given):
    with pytest.raises(adc.DtypeError, match="load takes a path, not"):
        adc.load(given)


def test_bytes_that_are_no_text(tmp_path):
    (tmp_path / "a.adc").write_bytes(b"def f(x):\n    return x\xff\xfe")
    with pytest.raises(adc.ParseError, match="UTF-8"):
        adc.load(tmp_path / "a.adc")
