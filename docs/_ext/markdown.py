"""Pages that are kept as Markdown at the root of the repository, taken over into the documentation."""

import re
from pathlib import Path
from typing import Any

UNDERLINES = {2: "-", 3: "~"}


def section(text: str, title: str) -> str:
    """Return what stands below a heading of the second level."""
    found = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", text, re.DOTALL | re.MULTILINE)
    if found is None:
        raise ValueError(f"there is no heading '## {title}': name one that is there")
    return found[1].strip() + "\n"


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
    limits = section((root / "README.md").read_text(encoding="utf-8"), "Limits")
    limits = "\n".join(line for line in limits.splitlines() if not line.startswith("BSD 3-Clause"))
    for name, text in (("changelog", changes), ("limits", limits)):
        (folder / f"{name}.txt").write_text(to_rst(text), encoding="utf-8")


def setup(app: Any) -> dict[str, Any]:
    """Write both when the build begins."""
    app.connect("builder-inited", _write)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
