"""Redraw the pictures of the README: the demonstration, and parts of three reports in a browser.

Run by `make pictures`; it needs Chromium.
"""

import io
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, sync_playwright

DOCS = Path(__file__).parent
COLUMN, HEIGHT, MARGIN = 460, 900, 20
COMMANDS = """
example motif -o motif.fa
train motif motif.fa -o motif -q
report motif --data motif.fa -o motif.html
example chain --missing 0.5 -o half.txt
example chain --seed 1 -o more.txt
train chain half.txt --unknown ? -o tagger -q
report tagger --data more.txt -o tagger.html
example detect -o photos.zip
train detect photos.zip -o detector -q
report detector --data photos.zip -o detector.html
"""
PARTS = (("motif", "Weights"), ("tagger", "Largest losses"), ("detector", "Median losses"))


def run(command: str, folder: Path) -> None:
    """Run one line of the command in a folder."""
    program = "from latentstruct.cli import main; main()"
    subprocess.run([sys.executable, "-c", program, *command.split()], cwd=folder, check=True, stdout=subprocess.DEVNULL)


def column(page: Page, path: Path, part: str) -> Image.Image:
    """Return a column of a report that begins with a heading."""
    page.goto(path.as_uri())
    top = page.get_by_role("heading", name=part).evaluate(
        "element => element.getBoundingClientRect().top + window.scrollY"
    )
    raw = page.screenshot(full_page=True, clip={"x": 0, "y": top - MARGIN, "width": COLUMN, "height": HEIGHT})
    return Image.open(io.BytesIO(raw)).convert("RGB")


def draw_reports(folder: Path) -> None:
    """Write reports of three kinds and put a column of each side by side."""
    for command in COMMANDS.split("\n"):
        if command:
            run(command, folder)
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": COLUMN, "height": HEIGHT}, color_scheme="light")
        columns = [column(page, folder / f"{name}.html", part) for name, part in PARTS]
        browser.close()
    width = len(columns) * COLUMN + (len(columns) - 1) * MARGIN
    whole = Image.new("RGB", (width, HEIGHT), columns[0].getpixel((0, 0)))
    for k, one in enumerate(columns):
        whole.paste(one, (k * (COLUMN + MARGIN), 0))
    whole.quantize(128, dither=Image.Dither.NONE).save(DOCS / "reports.png", optimize=True)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        draw_reports(Path(made))
        run("demo -q -o demo", Path(made))
        shutil.copy(Path(made) / "demo" / "demo.png", DOCS / "demo.png")
