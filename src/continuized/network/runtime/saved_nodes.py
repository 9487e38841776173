"""Nodes as data, to go on from: what a checkpoint of a real run keeps of each.

A checkpoint is taken while no exchange is under way.  So of a node there is its own time, the
number of its last exchange, and what changes in its model (`Checkpointed`).  The nodes that go on
from it are new processes with a new key, to which nothing that was sent before can come.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from continuized.network.protocol.node import Node
from continuized.network.workers.records import Record
from continuized.support.checkpoints.state import Checkpointed, GrowingRows, capture

# {number: {"time": ..., "seq": ..., "model": JSON, "arrays": {name: array}}}; the numbers are
# strings, as they are in JSON.
SavedNodes = dict[str, dict[str, Any]]
_ARRAYS = "saved"  # the first part of the names of arrays in a record


def can_save(model: Any) -> bool:
    """Whether a model names what changes in it."""
    return isinstance(model, Checkpointed) and bool(model.changing)


def save_nodes(nodes: Iterable[Node]) -> SavedNodes:
    """Save nodes that are idle."""
    saved: SavedNodes = {}
    for node in nodes:
        assert isinstance(node.model, Checkpointed)  # `can_save`, before the run
        plain, arrays = capture(node.model)
        saved[str(node.number)] = {
            "time": node.now,
            "seq": node.last_seq,
            "model": json.dumps(plain),
            "arrays": {
                name: array.join() if isinstance(array, GrowingRows) else array
                for name, array in arrays.items()
            },
        }
    return saved


def restore_model(model: Any, saved: Mapping[str, Any]) -> None:
    """Put back what changed in a model."""
    model.restore(json.loads(saved["model"]), saved["arrays"])


def to_record(saved: SavedNodes) -> Record:
    """Write saved nodes as a part of a record."""
    arrays: dict[str, NDArray[Any]] = {}
    plain = {}
    for number, node in saved.items():
        plain[number] = {**node, "arrays": list(node["arrays"])}
        arrays |= {f"{_ARRAYS}/{number}/{name}": a for name, a in node["arrays"].items()}
    return {_ARRAYS: plain}, arrays


def from_record(record: Record) -> SavedNodes:
    """Read what `to_record` wrote; nothing where there is none."""
    header, arrays = record
    return {
        number: {
            **node,
            "arrays": {
                name: np.asarray(arrays[f"{_ARRAYS}/{number}/{name}"]) for name in node["arrays"]
            },
        }
        for number, node in header.get(_ARRAYS, {}).items()
    }
