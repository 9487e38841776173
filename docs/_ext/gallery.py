"""The scripts of the gallery below their pictures: each can be read, copied and downloaded."""

from __future__ import annotations

import re
from typing import Any

_NAMED = re.compile(r"`examples/(\w+)\.py`\)$", re.MULTILINE)
_SCRIPT = """{{download}}`examples/{name}.py <../examples/{name}.py>`)

<details class="script"><summary>The script</summary>

```{{literalinclude}} ../examples/{name}.py
```

</details>"""


def show_scripts(page: str) -> str:
    """Return the page with every script after the paragraph that names it at its end."""
    return _NAMED.sub(lambda found: _SCRIPT.format(name=found[1]), page)


def _read(_app: Any, name: str, source: list[str]) -> None:
    if name == "gallery":
        source[0] = show_scripts(source[0])


def setup(app: Any) -> dict[str, bool]:
    """Register with Sphinx."""
    app.connect("source-read", _read)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
