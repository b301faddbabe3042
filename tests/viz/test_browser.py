"""Pages in Chromium: nothing is loaded from elsewhere, nothing overflows, all text is readable."""

from pathlib import Path

import pytest
from browser import browsing, opened, require

from command import run
from latentstruct.cli.registry import KINDS
from latentstruct.viz.report import pictures

pytestmark = pytest.mark.browser

SIZES = ((375, 812), (1440, 900))
THEMES = (False, True)
SHOWN = {"chain": [], "motif": ["--restarts", "2"], "detect": []}
"""Kinds whose pages are looked at, with options of their training."""
DOCUMENTATION = Path(__file__).parents[2] / "docs" / "_build" / "html" / "index.html"

CONTRAST = """() => {
  const channel = value => value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  const numbers = color => (color.match(/[\\d.]+/g) || []).map(Number);
  const light = ([r, g, b]) => 0.2126 * channel(r / 255) + 0.7152 * channel(g / 255) + 0.0722 * channel(b / 255);
  const ground = element => {
    for (let at = element; at; at = at.parentElement) {
      const found = numbers(getComputedStyle(at).backgroundColor);
      if (found.length === 3 || found[3] > 0) return found;
    }
    return [255, 255, 255];
  };
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), results = [];
  while (texts.nextNode()) {
    const element = texts.currentNode.parentElement;
    if (!texts.currentNode.data.trim() || !element.checkVisibility()) continue;
    const [a, b] = [numbers(getComputedStyle(element).color), ground(element)].map(light);
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    results.push([ratio, texts.currentNode.data.trim().slice(0, 40)]);
  }
  return results.sort((a, b) => a[0] - b[0]);
}"""
INK = """() => {
  const drawn = [...document.querySelectorAll("svg")].filter(svg => svg.checkVisibility());
  return drawn.map(svg => [svg.getBoundingClientRect().width, svg.getBoundingClientRect().height,
    getComputedStyle(svg.querySelector("[style*='var(--ink)']")).fill,
    getComputedStyle(document.body).backgroundColor]);
}"""
NAMELESS = """() => [...document.querySelectorAll("img, svg")].filter(one => one.checkVisibility()).filter(one => {
  const named = one.getAttribute("alt") || one.closest("[role=img][aria-label]")?.getAttribute("aria-label");
  return !(named && named.trim());
}).length"""
TWICE = """() => {
  const ids = [...document.querySelectorAll("[id]")].map(one => one.id);
  return ids.filter((id, k) => ids.indexOf(id) !== k);
}"""
WIDTHS = "() => [document.documentElement.scrollWidth, document.body.scrollWidth, window.innerWidth]"


@pytest.fixture(scope="module")
def browser():
    with browsing() as found:
        yield found


@pytest.fixture(scope="module", params=SHOWN)
def report(request, tmp_path_factory):
    """Return the page of a model that was trained on the example data of a kind."""
    folder, kind = tmp_path_factory.mktemp(request.param), KINDS[request.param]
    data = folder / kind.example_file
    data.write_bytes(kind.example())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pictures, "NARROW_WIDTH", 3.6)
        run("train", kind.name, data, *SHOWN[kind.name], "-o", folder / "model", "--report", folder / "page.html", "-q")
    return folder / "page.html"


def check_fits(shown, width):
    assert shown.errors == []
    assert shown.requests == []
    assert max(shown.page.evaluate(WIDTHS)) <= width


@pytest.mark.parametrize("dark", THEMES, ids=["light", "dark"])
@pytest.mark.parametrize(("width", "height"), SIZES, ids=["phone", "desk"])
def test_reports_can_be_read_everywhere(browser, report, width, height, dark):
    with opened(browser, report, width, height, dark) as shown:
        check_fits(shown, width)
        page = shown.page
        drawn = page.evaluate(INK)
        assert len(drawn) >= 3
        for wide, high, _, _ in drawn:
            assert 150 < wide <= width
            assert high > 60
        inks = {(ink, paper) for _, _, ink, paper in drawn}
        assert inks == {
            ("rgb(231, 231, 226)", "rgb(21, 24, 28)") if dark else ("rgb(29, 33, 39)", "rgb(252, 252, 250)")
        }
        contrasts = page.evaluate(CONTRAST)
        assert len(contrasts) > 50
        assert contrasts[0][0] >= 4.5, contrasts[:5]
        assert page.evaluate(NAMELESS) == 0
        assert page.evaluate(TWICE) == []
        assert page.locator("main").count() == page.locator("h1").count() == 1


def test_sections_can_be_reached_without_a_mouse(browser, report):
    with opened(browser, report) as shown:
        page = shown.page
        page.keyboard.press("Tab")
        assert page.evaluate("() => document.activeElement.className") == "skip"
        page.keyboard.press("Tab")
        outline = page.evaluate("() => getComputedStyle(document.activeElement).outlineStyle")
        first = page.locator("section h2").first.inner_text()
        assert (page.evaluate("() => document.activeElement.textContent"), outline) == (first, "solid")
        page.keyboard.press("Enter")
        assert page.evaluate("() => document.querySelector(':target').tagName") == "SECTION"


@pytest.mark.parametrize("dark", THEMES, ids=["light", "dark"])
@pytest.mark.parametrize(("width", "height"), SIZES, ids=["phone", "desk"])
def test_the_first_page_of_the_documentation_fits(browser, width, height, dark):
    require(DOCUMENTATION.exists(), f"{DOCUMENTATION.name} of the documentation", "make docs first")
    with opened(browser, DOCUMENTATION, width, height, dark) as shown:
        check_fits(shown, width)
        assert shown.page.locator("h1").count() >= 1
