"""The corpus command: what counts as a difference between two checkouts."""

from __future__ import annotations

import pickle
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

import adcompiler as adc
from corpus.__main__ import HERE, made, report
from corpus.programs import KINDS, Program, corpus, golden
from corpus.worker import digests, renumbered


def test_values_and_blocks_of_llvm_are_numbered_function_by_function():
    one = "define i64 @f(i64 %x) {\nentry:\n%t7 = add i64 %x, 1\nbr label %b3\nb3:\nret i64 %t7\n}"
    other = "define i64 @f(i64 %y) {\nstart:\n%t1 = add i64 %y, 1\nbr label %end\nend:\nret i64 %t1\n}"
    assert renumbered(one) == renumbered(other)
    assert renumbered(one + "\n" + other) == renumbered(other + "\n" + one)
    assert renumbered(one) != renumbered(one.replace("add", "sub"))
    assert renumbered(one) != renumbered(one.replace("ret i64 %t7", "ret i64 %x"))


def test_all_bits_of_results_count():
    assert [*digests((1.0, [2.0]))] == [*digests((1.0, [2.0]))]
    assert [*digests(1.0)] != [*digests(1.0 + 2**-52)]
    assert [*digests(1.0)] != [*digests(np.float32(1))]


def test_the_first_difference_is_shown(tmp_path: Path, capsys):
    programs = [Program("golden", name) for name in ("one", "two")]
    for side, kernel in (("this", "a\nb"), ("other", "a\nc")):
        for program in programs:
            place = tmp_path / side / program.folder
            place.mkdir(parents=True)
            (place / "bits").write_text("1.0")
            (place / "kernel").write_text(kernel if program.name == "two" else "a")
    assert report(tmp_path / "this", tmp_path / "other", programs)
    shown = capsys.readouterr().out
    assert "bits           2 equal     0 differ" in shown
    assert "kernel         1 equal     1 differ" in shown
    assert "kernel: golden/two" in shown
    assert "  -c\n  +b" in shown
    assert not report(tmp_path / "this", tmp_path / "this", programs)


def test_random_programs_are_the_same_for_one_seed():
    first, again = (corpus(["random"], 30, seed=4) for _ in range(2))
    assert [p.text for p in first] == [p.text for p in again]
    assert len(first) == 30
    assert [p.text for p in corpus(["random"], 30, seed=5)] != [p.text for p in first]
    assert {p.kind for p in corpus(["bench", "examples"], 0, 0)} < set(KINDS)


def test_golden_programs_have_arguments_that_they_take():
    for program in [*golden()][:4]:
        adc.compile(program.text, static=program.static, backend="numpy")(*program.args)


def modules(tmp_path: Path, programs: list[Program], hashes: str) -> str:
    """All LLVM modules of programs, made in a process where strings have other hashes."""
    given, folder = tmp_path / "programs", tmp_path / hashes
    given.write_bytes(pickle.dumps(programs))
    with mock.patch.dict("os.environ", PYTHONHASHSEED=hashes):
        made(HERE, given, folder)
    return "".join(path.read_text() for path in sorted(folder.glob("*/*/llvm")))


@pytest.mark.slow
def test_no_hash_decides_what_a_program_is_compiled_to(tmp_path: Path):
    programs = corpus(["golden", "random"], 60, seed=1)
    first, again = (modules(tmp_path, programs, hashes) for hashes in ("1", "2"))
    assert "define" in first
    assert first == again  # else the cache would never find them
