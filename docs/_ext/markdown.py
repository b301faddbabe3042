"""Convert the changelog, a Markdown file at the root of the repository, to a page of the documentation."""

import re
from pathlib import Path
from typing import Any

UNDERLINES = {2: "-", 3: "~"}


def to_rst(text: str) -> str:
    """Return simple Markdown (headings, paragraphs, lists, code, links) as reStructuredText."""
    lines: list[str] = []
    for line in text.splitlines():
        heading = re.fullmatch(r"(#{2,3}) (.+)", line)
        if heading:
            title = heading[2]
            lines += [title, UNDERLINES[len(heading[1])] * len(title), ""]
            continue
        if line.startswith("- ") and lines and lines[-1] and not lines[-1].startswith(("- ", "  ")):
            lines.append("")
        line = re.sub(r"\[([^\]]+)\]\([^)]+\)", r"\1", line)
        line = re.sub(r"\*(?!\*)", r"\\*", line) if "`" not in line else line
        lines.append(re.sub(r"`([^`]+)`", r"``\1``", line))
    return "\n".join(lines) + "\n"


def _write(app: Any) -> None:
    root, folder = Path(app.confdir).parent, Path(app.confdir) / "generated"
    folder.mkdir(exist_ok=True)
    changes = (root / "CHANGELOG.md").read_text(encoding="utf-8").split("\n", 1)[1]
    (folder / "changelog.txt").write_text(to_rst(changes), encoding="utf-8")


def setup(app: Any) -> dict[str, Any]:
    """Convert it at the start of the build."""
    app.connect("builder-inited", _write)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
