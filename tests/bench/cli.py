"""The suite's command line."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer

from bench import report
from bench.isolate import Outcome
from bench.machine import describe, taken
from bench.runner import Settings, measure
from bench.workload import PEERS, SIZES, Workload
from bench.workloads import every

DOCS = Path(__file__).resolve().parents[2] / "docs"
BACKENDS = ("cpu", "cuda")

Measure = Callable[[Workload], Outcome]
Table = Callable[[Mapping[str, Any]], str]

app = typer.Typer(add_completion=False)


def chosen(text: str | None, known: tuple[str, ...], what: str) -> tuple[str, ...]:
    """The names in a list with commas, all by default."""
    names = tuple(text.split(",")) if text else known
    unknown = [name for name in names if name not in known]
    if unknown:
        raise typer.BadParameter(f"unknown {what} {', '.join(unknown)}: there are {', '.join(known)}")
    return names


def require_device(backend: str) -> None:
    """An error in words where there is no such device, or no such backend of ours."""
    if backend == "cpu":
        return
    from bench.device import missing

    why = missing()
    if why:
        raise typer.BadParameter(why)


@app.command()
def bench(
    only: Annotated[str | None, typer.Option(help="Workloads or programs, with commas: gmm,lstm.")] = None,
    peers: Annotated[str | None, typer.Option(help=f"Peers, with commas: {','.join(PEERS)}.")] = None,
    quick: Annotated[bool, typer.Option(help="Smaller sizes and fewer rounds.")] = False,
    repeat: Annotated[
        int | None, typer.Option(min=1, help="Rounds of each entry: 7; with --against and --busy 15.")
    ] = None,
    threads: Annotated[int, typer.Option(min=1, help="Threads of everyone.")] = 2,
    backend: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    against: Annotated[
        Path | None, typer.Option(help="Another checkout, to compare this one with.", exists=True)
    ] = None,
    busy: Annotated[
        bool, typer.Option("--busy", help="Compare with a machine whose cores all spin.")
    ] = False,
    first: Annotated[bool, typer.Option("--first", help="Measure first gradients only.")] = False,
    probe: Annotated[bool, typer.Option(help="Measure first gradients and memory too.")] = True,
    size: Annotated[str | None, typer.Option(help="full, quick or tiny.")] = None,
    read: Annotated[
        Path | None, typer.Option(help="Results to start from; those measured replace them.")
    ] = None,
    save: Annotated[Path | None, typer.Option(help="Where to write the results, as JSON.")] = None,
    write: Annotated[bool, typer.Option(help="Write docs/benchmarks.md, its picture and its JSON.")] = False,
    note: Annotated[str, typer.Option(help="A sentence for the page, about this run.")] = "",
    cliffs: Annotated[
        bool, typer.Option("--cliffs", help="Programs as users write them, beside JAX, nest by nest.")
    ] = False,
    products: Annotated[
        bool, typer.Option("--products", help="Matrix products as programs write them, beside BLAS and JAX.")
    ] = False,
    jax: Annotated[
        bool, typer.Option(help="With --cliffs and --products: measure JAX too, if it is installed.")
    ] = True,
    hvp: Annotated[bool, typer.Option(help="With --cliffs: measure products with Hessians too.")] = True,
    json_: Annotated[
        Path | None, typer.Option("--json", help="With --cliffs: where to write the results.")
    ] = None,
    list_: Annotated[bool, typer.Option("--list", help="Print the workloads and measure nothing.")] = False,
) -> None:
    """Measure adcompiler beside kernels written by hand, PyTorch, JAX, autograd and CasADi."""
    if backend not in BACKENDS:
        raise typer.BadParameter(f"unknown backend {backend!r}: there are {', '.join(BACKENDS)}")
    if bool(against) + busy + write + cliffs + products > 1:
        raise typer.BadParameter("choose one of --against, --busy, --write, --cliffs and --products")
    if cliffs:
        from bench.cliffs import command
        from bench.cliffs import every as programs
        from bench.cliffs import first as results

        names = chosen(only, tuple(programs()), "program")
        task = {"size": size or "full", "threads": threads, "jax": jax, "hvp": hvp}
        return (results if first else command).run(names, task, json_, typer.echo)
    if products:
        from bench import products as of_matrices

        sides = of_matrices.SIDES[: 2 if quick else None]
        return of_matrices.run(sides, threads, jax and find_spec("jax") is not None, typer.echo)
    require_device(backend)
    workloads = every()
    if list_:
        for workload in workloads.values():
            typer.echo(f"{workload.name:<24} {workload.about}")
        return
    sized = chosen(size or ("quick" if quick else "full"), SIZES, "size")[0]
    rounds = repeat or (3 if quick else 15 if against or busy else 7)
    settings = Settings(sized, rounds, threads, backend, probe, not first)
    results: dict[str, Any] = json.loads(read.read_text("utf-8")) if read else {"workloads": {}}
    results |= {"machine": describe(threads), "size": sized, "backend": backend, "note": note}
    names = () if read and not only else chosen(only, tuple(workloads), "workload")
    results |= {"taken": taken()} if names else {}
    others = chosen(peers, PEERS, "peer")
    with measurement(against, busy, others, settings) as (measured, table):
        for name in names:
            typer.echo(f"{name}: {workloads[name].about}")
            results["workloads"][name] = measured(workloads[name])
            if save:
                save.write_text(json.dumps(results, indent=1), "utf-8")
    typer.echo("\n" + table(results))
    if write:
        report.publish(results, DOCS)


@contextmanager
def measurement(
    checkout: Path | None, busy: bool, peers: tuple[str, ...], settings: Settings
) -> Iterator[tuple[Measure, Table]]:
    """How a workload is measured, and the table of all of them."""
    if checkout:
        from bench import against

        if not (checkout / "adcompiler").is_dir():
            raise typer.BadParameter(f"{checkout} is no checkout: it has no folder adcompiler")
        yield lambda w: against.against(w, checkout.resolve(), settings), against.table
    elif busy:
        from bench import busy as beside

        with beside.spinners(settings.threads) as spinners:
            yield lambda w: beside.busy(w, peers, settings, spinners), beside.table
    else:
        yield lambda w: plainly(w, peers, settings), report.tables


def plainly(workload: Workload, peers: tuple[str, ...], settings: Settings) -> Outcome:
    """The suite's usual measurement, and a line that says what came of it."""
    found = measure(workload, peers, settings, typer.echo)
    typer.echo(report.line(workload.name, found))
    return found
