"""The lowest versions that pyproject.toml admits, as tools/lowest_versions.py reads them."""

from __future__ import annotations

import pytest

from tests.helpers.repository_tools import load_tool

TOOL = load_tool("lowest_versions")
PROJECT = {
    "project": {
        "name": "ours",
        "dependencies": ["numpy>=2.0"],
        "optional-dependencies": {
            "plot": ["matplotlib>=3.8"],
            "all": ["ours[plot, torch]"],
            "torch": ["torch>=2.4; python_version < '3.14'"],
        },
    },
    "dependency-groups": {"dev": ["ruff>=0.9", {"include-group": "test"}], "test": ["pytest>=8"]},
}


def test_extras_and_groups_may_name_others() -> None:
    found = TOOL.lowest(TOOL.requirements(PROJECT, ["all"], ["dev"]))
    names = {"numpy": "2.0", "matplotlib": "3.8", "torch": "2.4", "ruff": "0.9", "pytest": "8"}
    assert found == names


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (["numpy"], "has no lowest version: write name>=version"),
        (["numpy>=2,<3"], "has no lowest version"),
        (["numpy>=2.0", "numpy>=2.1"], "numpy has two lowest versions: 2.0 and 2.1"),
    ],
)
def test_what_is_no_lowest_version_is_refused(lines: list[str], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        TOOL.lowest(lines)
