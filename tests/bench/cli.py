"""The suite's command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from bench import report
from bench.machine import describe
from bench.runner import Settings, measure
from bench.workload import PEERS, SIZES
from bench.workloads import every

DOCS = Path(__file__).resolve().parents[2] / "docs"
BACKENDS = ("cpu", "cuda")

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
    only: Annotated[str | None, typer.Option(help="Workloads, with commas: gmm,lstm.")] = None,
    peers: Annotated[str | None, typer.Option(help=f"Peers, with commas: {','.join(PEERS)}.")] = None,
    quick: Annotated[bool, typer.Option(help="Smaller sizes and fewer turns.")] = False,
    repeat: Annotated[int, typer.Option(min=1, help="Turns of each entry.")] = 7,
    threads: Annotated[int, typer.Option(min=1, help="Threads of everyone.")] = 2,
    backend: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    probe: Annotated[bool, typer.Option(help="Measure first gradients and memory too.")] = True,
    size: Annotated[str | None, typer.Option(help="full, quick or tiny.")] = None,
    read: Annotated[
        Path | None, typer.Option(help="Results to start from; those measured replace them.")
    ] = None,
    save: Annotated[Path | None, typer.Option(help="Where to write the results, as JSON.")] = None,
    write: Annotated[bool, typer.Option(help="Write docs/benchmarks.md, its picture and its JSON.")] = False,
    note: Annotated[str, typer.Option(help="A sentence for the page, about this run.")] = "",
    list_: Annotated[bool, typer.Option("--list", help="Print the workloads and measure nothing.")] = False,
) -> None:
    """Measure adcompiler beside kernels written by hand, PyTorch, JAX, autograd and CasADi."""
    if backend not in BACKENDS:
        raise typer.BadParameter(f"unknown backend {backend!r}: there are {', '.join(BACKENDS)}")
    require_device(backend)
    workloads = every()
    if list_:
        for workload in workloads.values():
            typer.echo(f"{workload.name:<24} {workload.about}")
        return
    sized = chosen(size or ("quick" if quick else "full"), SIZES, "size")[0]
    settings = Settings(sized, 3 if quick else repeat, threads, backend, probe)
    results: dict[str, Any] = json.loads(read.read_text("utf-8")) if read else {"workloads": {}}
    results |= {"machine": describe(threads), "size": sized, "backend": backend, "note": note}
    names = () if read and not only else chosen(only, tuple(workloads), "workload")
    against = chosen(peers, PEERS, "peer")
    for name in names:
        typer.echo(f"{name}: {workloads[name].about}")
        results["workloads"][name] = measure(workloads[name], against, settings, typer.echo)
        typer.echo(report.line(name, results["workloads"][name]))
        if save:
            save.write_text(json.dumps(results, indent=1), "utf-8")
    typer.echo("\n" + report.tables(results))
    if write:
        report.publish(results, DOCS)
