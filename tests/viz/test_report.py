"""Pages: whole in one file, safe whatever the data hold, and true to the model."""

import base64
import io
import json
import math
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

import latentstruct
from command import fail, run
from error_fields import raises
from latentstruct import (
    CRF,
    Chain,
    LatentMulticlass,
    LatentSSVM,
    Motif,
    Multiclass,
    StructuralSVM,
    StructuredPerceptron,
)
from latentstruct.cli.kinds.chain.sample import make_example
from latentstruct.core.protocols import Iteration
from latentstruct.datasets import make_planted_motif
from latentstruct.exceptions import ConvergenceWarning
from latentstruct.io import Sequences
from latentstruct.persistence.models import MOST_ITERATIONS, _decode_history, _encode_history
from latentstruct.viz.plots.features import drawn_text
from latentstruct.viz.report import page as page_module
from latentstruct.viz.report import pictures, write_report
from latentstruct.viz.report.blocks import (
    Drawing,
    Examples,
    FactList,
    Group,
    Letters,
    Photo,
    TableBlock,
    Text,
    Token,
    Tokens,
)
from latentstruct.viz.report.model import estimator_page
from latentstruct.viz.report.page import Page, Section, write_page
from latentstruct.viz.report.predictions import WORST_DRAWN, prediction_blocks
from latentstruct.viz.report.words import training_in_words
from latentstruct_papers.findings import Findings, Table

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 4))
Y = (X[:, 0] + 0.3 * RNG.normal(size=40) > 0).astype(int)
HOSTILE = "<script>alert(1)</script>\"'&<img src=x onerror=alert(1)> $\\frac{$"
VOID = ("meta", "link", "img", "br", "path", "use", "image", "rect", "line")


class Parsed(HTMLParser):
    """The elements and texts of a page."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.texts, self.open = [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert tag in VOID or self.open.pop() == tag

    def handle_data(self, data):
        if "style" not in self.open:
            self.texts.append(data)

    def names(self, attribute):
        return [values[attribute] for _, values in self.tags if attribute in values]


def page_of(*blocks, lead=""):
    return Page("title", "subtitle", [Section("section", blocks, lead)])


def line_plot(ax):
    ax.plot([1, 2, 3], [1.0, 10.0, 100.0], label="line")
    ax.set_yscale("log")
    ax.legend()


LINE = Drawing(line_plot, "A line that rises.", "caption")
words = st.text(st.characters(codec="utf-8", categories=("L", "N", "P", "S")), min_size=1, max_size=20)


@settings(max_examples=40, deadline=None)
@given(text=words, other=words)
def test_texts_of_data_are_texts_and_never_markup(text, other):
    blocks = [
        Text(text),
        FactList([(text, other)]),
        TableBlock(text, (other, text), [(text, other)], text, 2),
        Tokens([Token(text, other, text, "wrong")], other),
        Letters([(text, [(other, "latent"), (text, "")])], other),
        Group(text, [Text(other)]),
    ]
    plain = Parsed(page_of(*[Text("x")]).html())
    found = Parsed(Page(text, other, [Section(other, blocks, text)]).html())
    allowed = {"p", "dl", "div", "dt", "dd", "table", "caption", "thead", "tbody", "tr", "th", "td", "figure"}
    allowed |= {"figcaption", "section", "h3"}
    assert {tag for tag, _ in found.tags} <= {tag for tag, _ in plain.tags} | allowed | {"span"}
    assert not any(name.startswith("on") for _, values in found.tags for name in values)
    assert found.texts.count(text) >= 10
    assert found.texts.count(other) >= 8


def test_hostile_names_reach_the_page_as_they_are():
    drawing = Drawing(
        lambda ax: ax.set_title(HOSTILE) and ax.set_xticks([0, 1], [HOSTILE, "a $ b $"]), HOSTILE, HOSTILE
    )
    found = Parsed(page_of(drawing, Photo(np.zeros((4, 4, 3), np.uint8), HOSTILE)).html())
    assert "script" not in [tag for tag, _ in found.tags]
    assert HOSTILE in found.names("aria-label")
    assert HOSTILE in found.names("alt")
    assert len([tag for tag, _ in found.tags if tag == "img"]) == 1


def test_a_page_is_one_file_that_asks_for_nothing():
    text = page_of(LINE, LINE, Photo(np.full((30, 40, 3), 7, np.uint8), "gray")).html()
    found = Parsed(text)
    assert not found.open
    addresses = found.names("src") + found.names("href") + found.names("xlink:href")
    assert all(address.startswith(("#", "data:")) for address in addresses)
    assert "url(" not in re.sub(r"url\(#[^)]*\)", "", text)
    assert "@import" not in text
    assert dict(found.tags)["html"] == {"lang": "en"}
    policy = [values["content"] for tag, values in found.tags if values.get("http-equiv") == "Content-Security-Policy"]
    assert policy == ["default-src 'none'; style-src 'unsafe-inline'; img-src data:"]


def test_plots_have_names_of_their_own_and_the_colors_of_the_page(monkeypatch):
    monkeypatch.setattr(pictures, "NARROW_WIDTH", 3.6)
    text = page_of(LINE, LINE).html()
    found = Parsed(text)
    ids = found.names("id")
    assert len(ids) == len(set(ids)) > 10
    targets = re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)', text)
    assert {a or b for a, b in targets} <= set(ids)
    # Each is there for wide and for narrow screens.
    assert [tag for tag, _ in found.tags].count("svg") == 4
    drawn = text[text.index("<main") :]
    assert "var(--ink)" in drawn
    assert "var(--series-1)" in drawn
    assert not any(color in drawn for color in pictures.VARIABLES)
    assert not any(part in drawn for part in ("<style", "<metadata", "<!--"))
    assert page_of(LINE, LINE).html() == text


def test_signs_that_the_font_lacks_are_told():
    shown = page_of(Drawing(lambda ax: ax.set_title("名"), "A title.")).html()
    assert "lacks them" in shown
    assert "lacks them" not in page_of(LINE).html()


def test_headings_are_in_order():
    text = page_of(Group("a", [Group("b", [Group("c", [Text("d")])])])).html()
    levels = [int(tag[1]) for tag, _ in Parsed(text).tags if re.fullmatch(r"h\d", tag)]
    assert levels == [1, 2, 3, 4, 5]


def decoded(source):
    kind, _, data = source.partition(";base64,")
    return kind, Image.open(io.BytesIO(base64.b64decode(data)))


def test_photographs_are_made_fit():
    large = RNG.integers(0, 256, size=(600, 2000, 3), dtype=np.uint8)
    kind, image = decoded(pictures.encode_photo(large))
    assert (kind, image.size) == ("data:image/jpeg", (900, 270))
    small = RNG.integers(0, 2, size=(8, 8, 3), dtype=np.uint8) * 255
    kind, image = decoded(pictures.encode_photo(small))
    assert kind == "data:image/png"
    assert np.array_equal(np.asarray(image.convert("RGB"))[::20, ::20], small)


def test_a_page_that_would_be_too_large_says_what_it_left_out(monkeypatch):
    monkeypatch.setattr(page_module, "MOST_PICTURE_BYTES", 50_000)
    noise = Photo(RNG.integers(0, 256, size=(200, 200, 3), dtype=np.uint8), "noise")
    found = Parsed(page_of(noise, noise, LINE).html())
    assert len([tag for tag, _ in found.tags if tag == "img"]) == 1
    text = " ".join(found.texts)
    assert "2 pictures were omitted" in text
    assert "A line that rises. (Omitted, because" in text


def test_a_page_appears_whole_or_not_at_all(tmp_path):
    path = tmp_path / "new" / "page.html"
    write_page(page_of(Text("first \ud800")), path)
    before = path.read_bytes()
    assert before.startswith(b"<!doctype html>")

    def breaks(_):
        raise RuntimeError("no")

    with pytest.raises(RuntimeError):
        write_page(page_of(Drawing(breaks, "broken")), path)
    assert path.read_bytes() == before
    assert [one.name for one in path.parent.iterdir()] == ["page.html"]
    with raises("path", got="the folder"):
        write_page(page_of(), tmp_path)


def examples_of(losses, n=None):
    n = len(losses) if n is None else n
    names = [f"example {i}" for i in range(n)]
    return Examples(names, losses, "loss", [""] * n, lambda i: [Text(f"drawn {i}")], source="data")


def flat(blocks):
    for block in blocks:
        yield block
        if isinstance(block, Group):
            yield from flat(block.blocks)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0, math.nan]), min_size=1, max_size=60))
def test_errors_are_sorted_by_loss_and_the_worst_are_drawn(values):
    losses = np.array(values)
    blocks = list(flat(prediction_blocks(examples_of(losses))))
    wrong = np.sort(losses[losses > 0])[::-1]
    listed = [row[-1] for block in blocks if isinstance(block, TableBlock) for row in block.rows]
    assert listed == wrong[:25].tolist()
    drawn = [int(one.text.split()[1]) for one in blocks if isinstance(one, Text) and one.text.startswith("drawn")]
    assert len(drawn) == len(set(drawn)) > 0
    if not np.isnan(losses).all():
        assert not np.isnan(losses[drawn]).any()
    shown = losses[drawn][: min(WORST_DRAWN, len(wrong))]
    assert shown.tolist() == (wrong if len(wrong) else losses)[: len(shown)].tolist()
    # Right ones are shown too, where there are some.
    assert (losses[drawn] == 0).any() == (losses == 0).any()


def test_errors_of_equal_loss_are_sorted_by_how_bad_they_are():
    losses, severity = np.array([1.0, 0.0, 1.0, 1.0, 2.0]), np.array([0.2, 9.0, 0.1, 0.5, 0.0])
    blocks = list(flat(prediction_blocks(replace(examples_of(losses), severity=severity))))
    (table,) = [one for one in blocks if isinstance(one, TableBlock)]
    assert [row[0] for row in table.rows] == [f"example {i}" for i in (4, 3, 0, 2)]
    assert any(isinstance(one, Drawing) for one in blocks)
    # Two bars of right and wrong would say no more than the sentence does.
    blocks = list(flat(prediction_blocks(examples_of(losses[:4]))))
    assert not any(isinstance(one, Drawing) for one in blocks)
    assert "Losses (loss): 1 of 4 examples have zero loss, the mean is 0.75." in [
        one.text for one in blocks if isinstance(one, Text)
    ]


def test_motifs_trained_in_python_have_their_logo_and_sites(tmp_path):
    data = make_planted_motif(n_positive=20, n_negative=20, length=40, width=6, mutation=0.0, random_state=0)
    model = LatentSSVM(Motif(width=6, background_order=0), C=1.0).fit(data.X, data.Y)
    out = tmp_path / "page.html"
    write_report(model, out, data.X, data.Y)
    shown = out.read_text(encoding="utf-8")
    for text in ("Sequence logo of ", "Heat map of the weights", "counted from 1", "The site is letters", "sequence 1"):
        assert text in shown
    write_report(model, out, Sequences([f"<{k}>" for k in range(5)], [""] * 5, list(data.X[:5])))
    shown = out.read_text(encoding="utf-8")
    assert "&lt;0&gt;" in shown
    assert "True outputs are unknown" in shown
    write_report(model, out)
    assert "Heat map of the weights" in out.read_text(encoding="utf-8")


def test_predictions_without_truth_are_shown_without_losses():
    blocks = list(flat(prediction_blocks(examples_of(None, 3))))
    assert [one.text for one in blocks if isinstance(one, Text)][1:] == ["drawn 0", "drawn 1", "drawn 2"]
    assert not any(isinstance(one, TableBlock) for one in blocks)
    assert len(prediction_blocks(examples_of(None, 0))) == 1
    with raises("losses", got="shape (2,)"):
        prediction_blocks(examples_of(np.zeros(2), 3))


def test_words_claim_no_more_than_was_proved():
    certified = StructuralSVM(Multiclass()).fit(X, Y)
    assert "the minimum is certified" in " ".join(training_in_words(certified))
    states = RNG.normal(size=(30, 3, 4))
    latent = LatentSSVM(LatentMulticlass(), restarts=2).fit(states, Y[:30])
    reported = " ".join(training_in_words(latent))
    assert "certified" not in reported
    assert "may be a local minimum" in reported
    assert "best of 2 starts" in reported
    smooth = CRF(Multiclass(), solver="lbfgs").fit(X, Y)
    smooth.lower_bound_ = -math.inf
    assert "no lower bound" in " ".join(training_in_words(smooth))
    perceptron = StructuredPerceptron(Multiclass(), max_iter=3).fit(X, Y)
    assert "certified" not in " ".join(training_in_words(perceptron))
    certified.certified_ = False
    assert "not certified" in " ".join(training_in_words(certified))


def test_any_fitted_estimator_has_a_page(tmp_path):
    path = tmp_path / "page.html"
    model = CRF(Chain()).fit([X[:5], X[5:12]], [Y[:5], Y[5:12]])
    write_report(model, path, [X[:5], X[5:12]], [Y[:5], 1 - Y[5:12]])
    text = path.read_text()
    assert "Errors by decreasing loss" in text
    assert "example 1" in text
    write_report(model, path, [X[:5]])
    assert "True outputs are unknown" in path.read_text()
    states = LatentSSVM(LatentMulticlass(weights="state"), restarts=2).fit(RNG.normal(size=(30, 3, 4)), Y[:30])
    write_report(states, path)
    found = Parsed(path.read_text())
    shown = " ".join(found.names("aria-label"))
    assert "3 latent states" in shown
    assert "objectives of 2 starts" in shown
    assert "Pass data to see predictions" in " ".join(found.texts)
    with raises("model", expected="a fitted estimator"):
        write_report(CRF(Chain()), path)
    with raises("X", got=None, expected="given together with `Y`"):
        write_report(model, path, Y=[Y[:5]])


iterations = st.builds(
    Iteration,
    st.integers(1, 10**6),
    st.floats(allow_nan=False),
    st.floats(allow_nan=False),
    st.floats(0),
    st.integers(0, 10**12),
    st.floats(0, 1e6),
    st.booleans(),
    st.integers(0, 5),
)


@settings(max_examples=50, deadline=None)
@given(st.lists(iterations, max_size=20))
def test_a_history_is_saved_as_it_is(history):
    assert _decode_history(_encode_history(history)) == history


def test_a_long_history_is_thinned_and_keeps_both_ends_of_each_start():
    history = [Iteration(k + 1, 1.0, 0.0, 1.0, k, float(k), start=start) for start in range(4) for k in range(3000)]
    kept = _decode_history(_encode_history(history))
    assert MOST_ITERATIONS * 0.9 < len(kept) <= MOST_ITERATIONS
    for start in range(4):
        numbers = [line.iteration for line in kept if line.start == start]
        assert (numbers[0], numbers[-1]) == (1, 3000)
        assert max(np.diff(numbers)) <= 10


def test_models_keep_their_history_and_old_ones_load_without(tmp_path):
    model = StructuralSVM(Multiclass()).fit(X, Y)
    model.save(tmp_path / "model")
    assert latentstruct.load(tmp_path / "model").history_ == model.history_
    file = tmp_path / "model" / "model.json"
    stored = json.loads(file.read_bytes())
    history = dict(stored["fitted"].pop("history_")["$dict"])
    file.write_text(json.dumps(stored))
    assert latentstruct.load(tmp_path / "model").history_ == []
    run("report", tmp_path / "model", "-o", tmp_path / "page.html")
    assert "history was not saved" in (tmp_path / "page.html").read_text()
    for damage in (
        {**history, "iteration": history["iteration"][:-1]},
        {**history, "seconds": ["1"] * len(history["iteration"])},
        {**history, "start": [True] * len(history["iteration"])},
        {**history, "oracle_calls": [-1] * len(history["iteration"])},
        {**history, "more": []},
        {name: history[name] for name in history if name != "gap"},
        [1, 2],
        7,
    ):
        stored["fitted"]["history_"] = {"$dict": list(damage.items())} if isinstance(damage, dict) else damage
        file.write_text(json.dumps(stored))
        with raises(file="model.json", expected="the description of a model"):
            latentstruct.load(tmp_path / "model")


@pytest.fixture(scope="module")
def tagger(tmp_path_factory):
    """Return a folder with data, a model that was trained on one half of them, and the page of the training."""
    folder = tmp_path_factory.mktemp("tagger")
    sentences = make_example(0).decode().split("\n\n")
    (folder / "train.txt").write_text("\n\n".join(sentences[:60]) + "\n\n")
    (folder / "valid.txt").write_text("\n\n".join(sentences[60:]))
    reported = run(
        *("train", "chain", folder / "train.txt", "--valid", folder / "valid.txt", "-o", folder / "model"),
        *("--report", folder / "train.html", "-q"),
    )
    assert f"report          {folder / 'train.html'}" in reported.stdout
    return folder


def test_training_and_the_command_write_the_same_page(tagger):
    out = tagger / "report.html"
    reported = run("report", tagger / "model", "--data", tagger / "valid.txt", "-o", out, "-q")
    assert reported.stdout.splitlines()[0].split() == ["report", str(out)]
    pages = [Parsed((tagger / name).read_text()) for name in ("train.html", "report.html")]
    first, second = ([text for text in page.texts if "written" not in text] for page in pages)
    unnamed = [[text for text in texts if "valid.txt" not in text] for texts in (first, second)]
    assert unnamed[0] == unnamed[1]
    assert "valid.txt, held out from training" in " ".join(first)
    for title in ("Summary", "Predictions", "Weights", "Timing", "Training"):
        assert title in second
    assert len([1 for tag, _ in pages[0].tags if tag == "svg"]) >= 4


def test_the_command_reads_standard_input_and_tells_what_it_wrote(tagger, tmp_path):
    out = tmp_path / "page.html"
    text = (tagger / "valid.txt").read_text()
    found = json.loads(run("report", tagger / "model", "--data", "-", "-o", out, "--json", "-q", stdin=text).stdout)
    assert found["report"] == str(out)
    assert found["bytes"] == out.stat().st_size
    assert found["n_examples"] == text.count("\n\n")
    assert "Data: standard input." in out.read_text()
    run("train", "chain", "-", "-o", tmp_path / "model", "--report", out, "-q", stdin=text)
    assert "Data: standard input, the training data." in out.read_text()


def test_no_file_that_is_no_page_is_ever_replaced(tagger, tmp_path):
    data, model = tagger / "valid.txt", tagger / "model"
    before = data.read_bytes()
    assert "ends in .html" in fail("report", model, "--data", data, "-o", data)
    page = tmp_path / "data.html"
    page.write_bytes(before)
    for command in (("report", model, "-o", page), ("train", "chain", page, "--report", page, "-o", tmp_path / "new")):
        assert "must be a new file or an HTML page" in fail(*command)
        assert page.read_bytes() == before
    assert not (tmp_path / "new").exists()
    (tmp_path / "dir.html").mkdir()
    assert "--output must be a file whose name" in fail("report", model, "-o", tmp_path / "dir.html")
    (tmp_path / "old.html").write_text("<!DOCTYPE html><title>old</title>")
    run("report", model, "-o", tmp_path / "old.html")
    assert "Summary" in (tmp_path / "old.html").read_text()


def test_options_of_other_kinds_are_refused(tagger, tmp_path):
    out = tmp_path / "page.html"
    assert "--positive must be left out for a" in fail("report", tagger / "model", "--positive", "x.fa", "-o", out)
    assert "--data must be given" in fail("report", tagger / "model", "--allow-unknown", "-o", out)
    assert not out.exists()


def test_models_saved_from_python_have_a_page_but_read_no_files(tmp_path):
    StructuralSVM(Multiclass()).fit(X, Y).save(tmp_path / "model")
    out = tmp_path / "page.html"
    run("report", tmp_path / "model", "-o", out)
    assert "Histogram of the" in out.read_text()
    assert "MODEL must be a model of latentstruct" in fail("report", tmp_path / "model", "--data", "x", "-o", out)


def test_findings_of_experiments_have_a_page(tmp_path):
    table = Table("errors", ("method", "paper", "here"), [("ours <b>", 0.5, None), ("theirs", 0.25, 1 / 3)], "a note")
    findings = Findings("small", "Table 1", "made up", ["fewer rows"], [table], {"line": line_plot}, {"seed": 3})
    findings.seconds, findings.cpu_seconds = 2.0, 1.5
    files = findings.save(tmp_path)
    found = Parsed(next(path for path in files if path.suffix == ".html").read_text())
    for text in ("Table 1", "Data: made up", "fewer rows", "ours <b>", "0.3333", "–", "a note", "seed", "3"):
        assert text in found.texts
    assert "2.0 s, 1.5 s of CPU time" in found.texts
    assert [tag for tag, _ in found.tags].count("svg") == 1


def test_a_plot_of_many_panels_is_drawn_wide_only(monkeypatch):
    monkeypatch.setattr(pictures, "NARROW_WIDTH", 3.6)

    def draw(ax):
        ax.set_axis_off()
        for panel in ax.figure.subplots(2, 6, sharey=False).flat:
            panel.set_ylabel("a long name\nof several lines\n" * 2, fontsize=18)

    element, *narrow = pictures.draw_svg(Drawing(draw, "panels", width=20.0), "p-").elements
    assert element.startswith("<svg")
    assert narrow == []


def test_a_model_of_another_library_is_refused(tmp_path):
    from sklearn.linear_model import LogisticRegression

    other = LogisticRegression().fit(np.eye(2), [0, 1])
    with raises("model", expected="a fitted estimator"):
        write_report(other, tmp_path / "page.html")


def test_an_unfinished_training_does_not_claim_that_the_bounds_met():
    rng = np.random.default_rng(0)
    model = CRF(Multiclass(), max_iter=2)
    with pytest.warns(ConvergenceWarning):
        model.fit(rng.normal(size=(60, 5)), rng.integers(0, 3, 60))
    assert "The two meet" not in estimator_page(model).html()


def test_dollars_are_drawn_as_they_are():
    texts = []

    def draw(ax):
        texts.append(drawn_text("$"))
        ax.set_title(texts[-1])

    pictures.draw_svg(Drawing(draw, "A title."), "p-")
    assert set(texts) == {"$"}
    assert drawn_text("$") == r"\$"


def test_only_rows_of_features_are_counted(tmp_path):
    data = make_planted_motif(n_positive=6, n_negative=6, length=20, width=5)
    motif = latentstruct.LatentSSVM(latentstruct.Motif(width=5), C=0.1).fit(data.X, data.Y)
    classes = latentstruct.StructuralSVM(latentstruct.Multiclass()).fit(np.eye(3), [0, 1, 2])
    for model, count in ((motif, []), (classes, ["3"])):
        write_report(model, tmp_path / "page.html")
        page = (tmp_path / "page.html").read_text(encoding="utf-8")
        assert re.findall(r"<dt>features</dt><dd>(\d+)</dd>", page) == count
