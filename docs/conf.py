"""Sphinx configuration; `make docs` builds the documentation without network access."""

import os
import sys
from importlib.metadata import version as installed_version
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
# Examples are built in parallel; more BLAS threads would compete with each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MPLBACKEND", "agg")

project = "latentstruct"
author = "the latentstruct authors"
copyright = "the latentstruct authors, BSD 3-Clause license"
release = version = installed_version("latentstruct")
language = "en"

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
    "_ext.mathml",
    "_ext.names",
    "_ext.pictures",
    "_ext.markdown",
    "_ext.gallery",
    "_ext.commands",
]
templates_path = ["_templates"]
exclude_patterns = ["_build", "generated"]
default_role = "py:obj"
smartquotes = False
nitpicky = True
# Single backticks in docstrings also name parameters and functions of other libraries.
nitpick_ignore_regex = [("py:obj", ".*")]

autosummary_generate = True
autosummary_imported_members = True
autodoc_typehints = "none"
autodoc_member_order = "bysource"
numpydoc_show_class_members = False

html_theme = "pydata_sphinx_theme"
html_title = "latentstruct"
html_math_renderer = "mathml"
html_static_path = ["_static"]
html_css_files = ["style.css"]
html_logo = "generated/logo.svg"
html_favicon = "generated/logo.svg"
html_show_sourcelink = False
html_copy_source = False
html_show_sphinx = False
# Top-level pages have no section to list in a sidebar.
html_sidebars = {"*": []}
html_context = {"default_mode": "auto"}
html_theme_options = {
    "logo": {"text": "latentstruct", "alt_text": "latentstruct"},
    "navbar_end": ["theme-switcher"],
    "navbar_persistent": ["search-button"],
    "navbar_align": "left",
    "header_links_before_dropdown": 5,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "show_prev_next": True,
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "back_to_top_button": False,
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}

WITH_DATA = bool(os.environ.get("LATENTSTRUCT_DATA"))
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "subsection_order": ["../examples/start", "../examples/applications"],
    "default_thumb_file": str(HERE / "generated" / "logo.svg"),
    "parallel": True,
    # Tutorials on real data run only if the data are available.
    "filename_pattern": r"/plot_" if WITH_DATA else r"/start/plot_",
    "backreferences_dir": "generated/backreferences",
    "doc_module": ("latentstruct", "latentstruct_papers.datasets"),
    "reference_url": {"latentstruct": None, "latentstruct_papers": None},
    "remove_config_comments": True,
    "download_all_examples": False,
    "show_signature": False,
    "show_memory": False,
    "min_reported_time": 1e9,
    "write_computation_times": False,
    "within_subsection_order": "FileNameSortKey",
    "matplotlib_animations": False,
    "abort_on_example_error": False,
    "only_warn_on_example_error": False,
    "plot_gallery": "True",
}
