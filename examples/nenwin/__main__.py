"""The command line: `python -m examples.nenwin train`, `sample` and `draw`."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from examples.nenwin.digits import Settings, Trained, digits, divided, train
from examples.nenwin.pictures import curves, paths
from examples.nenwin.sample import LOGBOOK, timed


def main(given: list[str] | None = None) -> None:
    """Run one command."""
    parser = argparse.ArgumentParser(prog="python -m examples.nenwin", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, what in (("train", "train on digits, draw the curves"), ("draw", "train, draw marbles' paths")):
        command = commands.add_parser(name, help=what)
        command.add_argument("--epochs", type=int, default=Settings.epochs)
        command.add_argument("--seed", type=int, default=Settings.seed)
        command.add_argument("--alpha", type=float, default=Settings.alpha)
        command.add_argument("--method", choices=("verlet", "beeman"), default=Settings.method)
        command.add_argument("--folder", type=Path, default=Path(), help="where pictures are written")
    commands.add_parser("sample", help="time the logbook's sample")
    asked = parser.parse_args(given)
    if asked.command == "sample":
        first, best = timed()
        print(f"784 marbles, 18 nodes, 10 steps, with gradients: {best * 1e3:.1f} ms")
        print(f"the first call, which compiles: {first:.1f} s")
        print(f"the logbook: {LOGBOOK}")
        return
    trained = train(Settings(asked.epochs, asked.seed, alpha=asked.alpha, method=asked.method))
    print(f"loss {trained.losses[-1]:.3f}, held-out accuracy {trained.held[-1]:.1%}")
    print(f"drawn: {drawn(trained, asked.command, asked.folder)}")


def drawn(trained: Trained, command: str, folder: Path) -> Path:
    """Draw the picture of a command, and return its file."""
    if command == "train":
        curves(trained, folder / "nenwin_curves.png")
        return folder / "nenwin_curves.png"
    images, labels = digits()
    held = divided(labels, trained.settings)[1]
    chosen = [int(held[np.flatnonzero(labels[held] == c)[0]]) for c in (0, 1, 4)]
    paths(trained, images[chosen], labels[chosen], folder / "nenwin_paths.png")
    return folder / "nenwin_paths.png"


if __name__ == "__main__":
    main()
