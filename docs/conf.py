"""How Sphinx builds the documentation; `python -m sphinx -W docs site`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

from continuized import __version__

project = "continuized"
author = "the authors of continuized"
release = version = __version__
root_doc = "index"
exclude_patterns = ["_ext", "paper"]  # the paper is built by its journal

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.intersphinx",
    "sphinx_copybutton",
    "docstrings",
    "explorer",
    "gallery",
    "inline_math",
    "links",
    "mathml",
]

# Pages are MyST.  Their cells are run when they are built, in an empty folder; the commands in them
# are those of this Python.
os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
os.environ |= {"COLUMNS": "90", "TTY_COMPATIBLE": "0"}  # what they print is kept as lines
myst_enable_extensions = ["amsmath", "attrs_inline", "dollarmath"]
myst_heading_anchors = 3
myst_links_external_new_tab = False
nb_execution_in_temp = True
nb_execution_mode = "auto"
nb_execution_raise_on_error = True
nb_execution_timeout = 120
nb_merge_streams = True

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
autodoc_type_aliases = {name: name for name in ("Array", "ArrayLike", "Seed")}
maximum_signature_line_length = 72
napoleon_google_docstring = False
napoleon_use_rtype = False
default_role = "code"
python_use_unqualified_type_names = True

suppress_warnings = [
    "config.cache",
    "ref.python",  # short names in signatures, such as Result, that several modules have
]

html_math_renderer = "mathml"
html_theme = "pydata_sphinx_theme"
html_title = "continuized"
html_static_path = ["_static"]
html_css_files = ["pages.css"]
html_show_sourcelink = False
html_theme_options = {
    "show_nav_level": 1,
    "navbar_align": "left",
    "navbar_persistent": ["search-button"],
    "footer_end": [],
    "show_version_warning_banner": False,
    "pygments_light_style": "tango",
    "pygments_dark_style": "monokai",
}
