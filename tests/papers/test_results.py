"""The saved results of full runs, and the pages that show them."""

import json
import re
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from error_fields import raises
from latentstruct.exceptions import FormatError
from latentstruct_papers import EXPERIMENTS, Claim
from latentstruct_papers.figures import FIGURES, Bars, draw_all, read_cell
from latentstruct_papers.findings import above, settled
from latentstruct_papers.results import END, FOLDER, PAGE, REPOSITORY, Saved, insert, load, page, read

TEXTS = [
    *(REPOSITORY / "docs").glob("*.rst"),
    *(REPOSITORY / "docs" / "kinds").glob("*.rst"),
    *(REPOSITORY / "examples").rglob("*.py"),
    REPOSITORY / "README.md",
]
FIGURE = re.compile(r"\d+\.\d+")
SAVED = load()


def test_the_page_shows_the_saved_results():
    text = PAGE.read_text(encoding="utf-8")
    assert insert(text, page(list(SAVED.values()))) == text, "run python -m latentstruct_papers.results"


def test_every_claim_is_on_the_page():
    text = re.sub(r"\\(.)", r"\1", PAGE.read_text(encoding="utf-8"))
    for saved in SAVED.values():
        for claim in saved.claims:
            assert claim.found in text


def test_saved_results_are_small_and_of_known_experiments():
    assert {path.stem for path in FOLDER.glob("*.json")} == set(SAVED) <= set(EXPERIMENTS)
    assert all(path.stat().st_size < 200_000 for path in FOLDER.glob("*.json"))


def sentences():
    """Yield path, experiment and sentence of all text that refers to an experiment."""
    for path in TEXTS:
        text = re.sub(r"\n#? *", " ", path.read_text(encoding="utf-8"))
        # An abbreviated number such as 79.6 does not end a sentence.
        for sentence in re.split(r"(?<=[.;:]) ", text):
            for name in re.findall(r"reproduce ([\w-]+)", sentence):
                yield path, name, sentence


def test_figures_beside_a_command_are_those_of_its_results():
    checked = 0
    for path, name, sentence in sentences():
        # The benchmark of group norms cites an experiment for its method only.
        if name not in SAVED or path.name == "speed.rst":
            continue
        for figure in FIGURE.findall(sentence):
            assert figure in SAVED[name].numbers, (path.name, name, figure)
            checked += 1
    assert checked, "the sentences were not found"


def test_figures_of_benchmarks_without_saved_results_are_marked():
    """Ratios of the page about speed, and the table of motifs, are written by the benchmarks; others are not kept."""

    def is_unmarked(paragraph):
        named = re.search(r"-m\s+benchmarks", paragraph) and FIGURE.search(paragraph.replace("python -m", ""))
        return bool(named) and "earlier version" not in paragraph

    sample = "It takes 0.25 of the time (``python -m benchmarks cold``)."
    assert is_unmarked(sample)
    assert not is_unmarked(f"In an earlier version: {sample}")
    for path in TEXTS:
        if path.name in ("speed.rst", "comparison.rst", "motif.rst", "README.md") or path.suffix == ".py":
            continue
        paragraphs = re.split(r"\n\s*\n", path.read_text(encoding="utf-8"))
        assert [one for one in paragraphs if is_unmarked(one)] == [], path.name


def test_no_verdict_on_models_whose_objectives_still_fall():
    assert settled("reproduced", [0.01, 0.2]) == settled("not reproduced", [0.2, 0.01]) == "undecided"
    assert [settled(one, [0.01, 0.0]) for one in ("reproduced", "not reproduced")] == ["reproduced", "not reproduced"]


@pytest.mark.parametrize("name", [name for name in FIGURES if name in SAVED])
def test_figures_show_the_saved_tables(name):
    from matplotlib.figure import Figure

    tables = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))["tables"]
    drawing, figure = FIGURES[name], Figure()
    drawing.draw(figure, tables)
    if isinstance(drawing, Bars):
        shown = [bar.get_width() for bar in figure.axes[0].patches]
        columns, rows = tables[drawing.table]["columns"], tables[drawing.table]["rows"]
        chosen = [[row[columns.index(name)] for name in drawing.names] for row in rows]
        cells = chosen if drawing.by_column else zip(*chosen, strict=True)
        expected = [read_cell(cell)[0] for bar in cells for cell in bar if cell is not None]
    else:
        lines = [container.lines[0] for axes in figure.axes for container in axes.containers]
        shown = [value for line in lines for value in line.get_ydata()]
        panels = drawing.panels(tables).values()
        cells = [row[column] for rows in panels for column in drawing.names for row in rows]
        expected = [read_cell(cell)[0] for cell in cells if cell is not None]
    assert shown
    assert shown == pytest.approx(expected)
    assert f"generated/papers/{name}.svg" in PAGE.read_text(encoding="utf-8")


def test_figures_are_drawn_of_results_with_tables(tmp_path):
    results, drawn = tmp_path / "results", tmp_path / "drawn"
    results.mkdir()
    for name in ("ssvm-diversity", "groupnorm-mnist", "mssvm-samples"):
        (results / f"{name}.json").write_bytes((FOLDER / f"{name}.json").read_bytes())
    assert {path.name for path in draw_all(results, drawn)} == {"ssvm-diversity.svg", "mssvm-samples.svg"}
    assert (drawn / "mssvm-samples.svg").read_text(encoding="utf-8").startswith("<?xml")


@pytest.mark.parametrize(
    ("cell", "expected"),
    [("69.9 ± 0.3", (69.9, 0.3)), ("88.06 ± 1.49 (C 0.01)", (88.06, 1.49)), ("30%", (30, None)), (4, (4, None))],
)
def test_cells_are_read_as_value_and_spread(cell, expected):
    assert read_cell(cell) == expected


def test_figures_of_the_summary_are_those_of_saved_results():
    """The text below the tables names several experiments, so that each figure is looked for in all of them."""
    _, _, summary = PAGE.read_text(encoding="utf-8").partition(END)
    figures = FIGURE.findall(summary)
    assert figures
    numbers = "\n".join(one.numbers for one in SAVED.values())
    assert [figure for figure in figures if figure not in numbers] == []


def saved(claims, name="snakes", **changes):
    return Saved(name, "A title", "data", claims, f"latentstruct reproduce {name}", 30.0, **changes)


@given(st.text(min_size=1, max_size=20).filter(lambda text: text.isprintable()))
def test_any_text_is_escaped(text):
    shown = page([saved([Claim(text, "", text, "reproduced")])])
    cells = [line.removeprefix("   * - ").removeprefix("     - ") for line in shown.splitlines()[16:20]]
    assert re.sub(r"\\(.)", r"\1", cells[0]) == text
    assert cells[1:] == ["–", cells[0], "reproduced"]


def test_page_and_times():
    shown = page([saved([Claim("a", "1.0", "2.0", "undecided", other_data=True)])])
    assert "undecided (different data)" in shown
    assert shown.startswith("1 statements: 1 undecided.\n")
    assert "``latentstruct reproduce snakes``: 30 s of CPU time." in shown
    with pytest.raises(FormatError):
        insert("no comments", shown)


def write(folder, **changes):
    content = {
        "name": "snakes",
        "title": "A title",
        "data": "data",
        "command": "latentstruct reproduce snakes",
        "quick": False,
        "cpu_seconds": 3.0,
        "claims": [asdict(Claim("a", "1.0", "2.0", "reproduced"))],
    }
    path = Path(folder) / "snakes.json"
    path.write_text(json.dumps(content | changes))
    return path


def test_files_are_checked(tmp_path):
    found = read(write(tmp_path))
    assert (found.cpu_seconds, found.claims[0].verdict) == (3.0, "reproduced")
    assert load(tmp_path) == {"snakes": found}
    assert read(write(tmp_path, cpu_seconds=180)).time() == "3 min of CPU time"
    wrong = (
        {"quick": True},
        {"claims": []},
        {"claims": [{"what": "a"}]},
        {"name": "snake"},
        {"cpu_seconds": None},
    )
    for changes in wrong:
        with raises(file="snakes.json", expected="results of a full run"):
            read(write(tmp_path, **changes))
    (tmp_path / "snakes.json").write_text("[")
    with pytest.raises(FormatError):
        read(tmp_path / "snakes.json")


@given(st.lists(st.floats(-1, 1), min_size=2, max_size=20), st.floats(-2, 2))
def test_verdicts_follow_the_standard_error(differences, published):
    mean, error = np.mean(differences), np.std(differences, ddof=1) / np.sqrt(len(differences))
    verdict = above(differences, published)
    assert (verdict == "reproduced") == (mean > 2 * error)
    if verdict != "reproduced":
        assert (verdict == "undecided") == (abs(mean - published) <= 2 * error)


def test_one_difference_decides_nothing():
    assert above([0.5]) == "undecided"
    assert above([-0.1, -0.1]) == "not reproduced"
