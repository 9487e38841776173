"""How objects are shown: in a line, in a few lines, and as a small table in notebooks.

An object is its name and a few facts, told by its method `_facts`, by the fields of its dataclass
or by those of its named tuple.  A class says

    __repr__ = show_line        # or show_lines
    _repr_html_ = show_html

and a named tuple is `@shown`.  Arrays are told by their shapes, functions by their names, and what
takes work to find out is left out: to look at an object costs nothing.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from html import escape
from numbers import Integral, Real
from typing import Any, TypeVar

from continuized.support.validation import short_repr

Kind = TypeVar("Kind", bound=type)

FEW = 6  # numbers that are shown one by one, and digits of each
WIDEST = 78  # characters of a line


def show_line(shown: Any) -> str:
    """Return the name of an object and its facts on a line, cut where it would be long.

    >>> from collections import namedtuple
    >>> show_line(namedtuple("Ball", "radius centre")(2.0, [0.0] * 100))
    'Ball(radius=2.0, centre=100 entries)'
    """
    facts = []
    for name, value in list_facts(shown).items():
        facts.append(f"{name}={short_repr(value) if isinstance(value, str) else show(value)}")
    line = f"{type(shown).__name__}({', '.join(facts)})"
    return line if len(line) <= 2 * WIDEST else line[: 2 * WIDEST - 4] + "...)"


def show_lines(shown: Any) -> str:
    """Return the name of an object, and a fact to a line; sentences are whole, on several.

    >>> from collections import namedtuple
    >>> print(show_lines(namedtuple("Ball", "radius centre")(2.0, [0.0] * 100)))
    Ball
      radius: 2.0
      centre: 100 entries
    """
    facts = list_facts(shown)
    width = max(map(len, facts), default=0) + 2
    lines = []
    for name, value in facts.items():
        text, room = show(value), WIDEST - width
        # Of an array or an object the beginning tells enough; of a reason the end may matter most.
        parts = textwrap.wrap(text, room) if isinstance(value, str) else [_cut(text, room)]
        lines.append(f"{name:>{width}}: " + ("\n" + " " * (width + 2)).join(parts))
    return "\n".join([type(shown).__name__, *lines])


def show_html(shown: Any) -> str:
    """Return the name of an object and its facts as a small table in HTML.

    >>> from collections import namedtuple
    >>> show_html(namedtuple("Ball", "name")("a < b")).replace(LEFT, "")
    '<table><caption>Ball</caption><tr><th>name</th><td>a &lt; b</td></tr></table>'
    """
    rows = [(name, _cut(show(value), 4 * WIDEST)) for name, value in list_facts(shown).items()]
    cells = [
        f"<tr><th{LEFT}>{escape(name)}</th><td{LEFT}>{escape(text)}</td></tr>"
        for name, text in rows
    ]
    return make_table(type(shown).__name__, cells)


def shown(named_tuple: Kind) -> Kind:
    """Let a class of named tuples be shown in a line, and as a table in notebooks: type checkers
    take no assignments in one."""
    named_tuple.__repr__ = show_line  # type: ignore[assignment, method-assign]
    named_tuple._repr_html_ = show_html  # type: ignore[attr-defined]
    return named_tuple


LEFT = ' style="text-align: left"'


def make_table(caption: str, rows: Sequence[str]) -> str:
    """Return a table in HTML, of rows in HTML, and a caption that is escaped."""
    return f"<table><caption{LEFT}>{escape(caption)}</caption>{''.join(rows)}</table>"


def list_facts(shown: Any) -> dict[str, Any]:
    """Return what is shown of an object: names and values."""
    if hasattr(shown, "_facts"):
        return dict(shown._facts())
    if is_dataclass(shown):
        names = [field.name for field in fields(shown) if field.repr]
    else:
        names = list(shown._fields)
    return {name: getattr(shown, name) for name in names}


def show(value: Any) -> str:
    """Return a value in a few words.

    >>> import numpy as np
    >>> show(0.1234567), show(np.arange(3)), show(np.zeros((50, 2))), show(abs), show("text")
    ('0.123457', '[0, 1, 2]', 'array of shape (50, 2)', 'abs', 'text')
    >>> show({"L": 2.0, "kind": "gram"}), show([1, 2]), show(None), show(True)
    ('L 2.0, kind gram', '[1, 2]', 'None', 'True')
    """
    if isinstance(value, str):
        return " ".join(value.split())
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, bool | None) or type(value).__name__ == "bool":
        return str(value)
    if isinstance(value, Integral):
        return str(value)
    if isinstance(value, Real):
        exact = repr(float(value))
        return exact if len(exact) <= FEW + 2 else f"{float(value):.6g}"
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return _show_array(value)
    if isinstance(value, Mapping):
        parts = [f"{key} {show(each)}" for key, each in value.items()]
        return ", ".join(parts) if len(parts) <= FEW else f"{len(parts)} entries"
    if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        few = len(value) <= FEW
        return f"[{', '.join(map(show, value))}]" if few else f"{len(value)} entries"
    if callable(value) and hasattr(value, "__name__"):
        return str(value.__name__)
    text = short_repr(value)
    return f"a {type(value).__name__}" if " at 0x" in text else text


def _show_array(value: Any) -> str:
    """Return the entries of a short vector, otherwise the shape."""
    shape = tuple(value.shape)
    if math.prod(shape) <= FEW and len(shape) <= 1:
        try:
            entries = value.tolist()
        except Exception:  # of an array that is traced, or that has no values
            return f"array of shape {shape}"
        return show(entries)
    return f"array of shape {shape}"


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 3] + "..."
