"""Copies of the graphs of Dask arrays that wait: so that a later pass reads the data anew.

`dask.graph_manipulation.bind` is meant for that, but since Dask's tasks are objects it leaves references
inside of them as they were, unless they stand in a blockwise layer: a rechunked array lacks blocks then.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def reread(array: Any, done: Sequence[Any], suffix: str) -> Any:
    """A Dask array of the same values under other keys, none of which is computed before `done` is.

    Data that stands in the graph itself is shared, not copied.
    """
    import dask
    from dask._task_spec import Alias, DataNode, Task, TaskRef, convert_legacy_graph
    from dask.array import Array as DaskArray
    from dask.graph_manipulation import checkpoint
    from dask.highlevelgraph import HighLevelGraph

    (array,) = dask.optimize(array)
    nodes = convert_legacy_graph(dict(array.__dask_graph__()))
    keys = {key: renamed(key, suffix) for key, node in nodes.items() if not isinstance(node, DataNode)}
    blocker = checkpoint(*done)
    tasks: dict[Any, Any] = {}
    for key, node in nodes.items():
        if key not in keys:
            tasks[key] = node
            continue
        own = node.substitute(keys, key=keys[key])
        is_first = keys.keys().isdisjoint(node.dependencies)
        tasks[keys[key]] = Task(keys[key], first, own, TaskRef(blocker.key)) if is_first else own
    for key in (k for k in nodes if isinstance(k, tuple) and k[0] == array.name and k not in keys):
        tasks[renamed(key, suffix)] = Alias(renamed(key, suffix), key)
    name = renamed(array.name, suffix)
    layers = HighLevelGraph.from_collections(name, tasks, dependencies=[blocker])
    return DaskArray(layers, name, chunks=array.chunks, dtype=array.dtype)


def renamed(key: Any, suffix: str) -> Any:
    """The key of a copy."""
    return (f"{key[0]}-{suffix}", *key[1:]) if isinstance(key, tuple) else f"{key}-{suffix}"


def first(value: Any, _done: Any) -> Any:
    """The value of a task that has waited for another one."""
    return value
