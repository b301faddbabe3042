"""What the documentation says is run, and what is public is documented."""

import re
import shlex
import textwrap
from importlib import import_module
from pathlib import Path

import pytest
from typer.testing import CliRunner

import latentstruct
from latentstruct.cli import app

DOCS = Path(__file__).parents[1] / "docs"
PAGES = sorted(
    path for path in DOCS.rglob("*.rst") if not {"generated", "auto_examples", "_templates"} & set(path.parts)
)
MODULES = ("datasets", "formats", "metrics", "motifs", "plots", "report", "solvers", "tasks", "testing")
BLOCK = re.compile(r"^\.\. code-block:: (\w+)\n((?: +:.*\n)*)\n((?:   .*\n|\n)+)", re.MULTILINE)


def name_of(path):
    return path.relative_to(DOCS).with_suffix("").as_posix()


def blocks(path):
    """Return language, options and text of the blocks of code of a page, in order."""
    found = BLOCK.findall(path.read_text(encoding="utf-8") + "\n")
    return [(language, options, textwrap.dedent(body).strip() + "\n") for language, options, body in found]


def written(language):
    return [path for path in PAGES if any(block[0] == language for block in blocks(path))]


@pytest.fixture(autouse=True)
def empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("MPLBACKEND", "agg")


@pytest.mark.parametrize("path", written("python"), ids=name_of)
def test_the_python_of_a_page_runs(path):
    namespace = {"__name__": "page"}
    for language, _, code in blocks(path):
        if language == "python":
            exec(compile(code, path.name, "exec"), namespace)


@pytest.mark.parametrize("path", written("console"), ids=name_of)
def test_the_commands_of_a_page_run_in_an_empty_folder(path):
    for language, options, text in blocks(path):
        named = re.search(r":name: (\S+)", options)
        if named:
            Path(named[1]).write_text(text, encoding="utf-8")
        if language == "console":
            run_session(text)


def run_session(text):
    """Run the lines that begin with $; what follows one must be among the lines it prints, figures aside."""
    printed = set()
    for line in text.splitlines():
        if line.startswith("$ "):
            printed = {without_figures(shown) for shown in run_line(line.removeprefix("$ ")).splitlines()}
        else:
            assert without_figures(line) in printed, line


def without_figures(line):
    return " ".join(re.sub(r"\d+(\.\d+)?(e-\d+)?", "#", line).split())


def run_line(line):
    """Run commands joined by | as a shell would, the last one's output perhaps going to a file, and return it."""
    line, _, target = line.partition(" > ")
    passed = None
    for part in line.split(" | "):
        command, *arguments = shlex.split(part)
        assert command == "latentstruct", line
        result = CliRunner().invoke(app, arguments, input=passed)
        assert result.exit_code == 0, (line, result.output, result.exception)
        passed = result.stdout_bytes
    if target:
        Path(target.strip()).write_bytes(passed)
        return ""
    return passed.decode()


def test_every_page_is_in_a_table_of_contents():
    listed = set()
    for path in PAGES:
        for _, body in re.findall(r"^\.\. toctree::\n((?:   :.*\n)*)\n((?:   .+\n)+)", path.read_text(), re.MULTILINE):
            listed |= {(path.parent / entry.strip()).relative_to(DOCS).as_posix() for entry in body.splitlines()}
    assert {name_of(path) for path in PAGES} - listed == {"index"}
    assert {name for name in listed if not name.startswith("auto_examples")} == {
        name for name in map(name_of, PAGES) if name != "index"
    }


def documented_names():
    """Return the names that the pages of the API reference list, with their modules."""
    names = set()
    for path in (DOCS / "api").glob("*.rst"):
        module = ""
        for line in path.read_text(encoding="utf-8").splitlines():
            if found := re.match(r"\.\. currentmodule:: (\S+)", line):
                module = found[1]
            elif module and (found := re.fullmatch(r"   ([A-Za-z_]\w*)", line)):
                names.add(f"{module}.{found[1]}")
    return names


def test_every_public_name_is_documented():
    documented = documented_names()
    public = {f"latentstruct.{name}" for name in latentstruct.__all__}
    assert public - documented == set()
    for module in MODULES:
        names = import_module(f"latentstruct.{module}").__all__
        missing = {name for name in names if not {f"latentstruct.{module}.{name}", f"latentstruct.{name}"} & documented}
        assert missing == set(), module


def test_every_documented_name_exists():
    for name in documented_names():
        module, _, attribute = name.rpartition(".")
        assert hasattr(import_module(module), attribute), name


def test_the_pages_name_no_place_of_one_machine():
    sources = [*PAGES, *DOCS.glob("*.py"), *DOCS.glob("_ext/*.py"), *DOCS.glob("_static/*")]
    for path in sources:
        found = re.search(r"(?<![\w.])/(work|home|root|tmp|usr)/\S+", path.read_text(encoding="utf-8"))
        assert found is None, f"{path.name}: {found}"


def test_nothing_is_fetched_by_style_or_settings():
    for path in [*DOCS.glob("_static/*.css"), DOCS / "conf.py", *DOCS.glob("_ext/*.py")]:
        addresses = set(re.findall(r"https?://[^\s\"')]+", path.read_text(encoding="utf-8")))
        assert addresses <= {"http://www.w3.org/2000/svg"}, path.name
