"""What reports show of chains, classes, measures, motifs, alignments and parsers."""

import random
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from parsing_reference import trees

from command import run
from error_fields import raises
from latentstruct.cli.kinds.align.report import align_columns
from latentstruct.cli.kinds.chain.report import show_feature
from latentstruct.cli.kinds.parse.report import outline
from latentstruct.cli.options import HeldOut
from latentstruct.cli.registry import load_trained
from latentstruct.data.sequences import count_hits
from latentstruct.data.trees import constituents, words
from latentstruct.features.windows import WindowFeatures
from latentstruct.io import write_sites
from latentstruct.io.fasta import read_sites
from latentstruct.tasks.motif.sites import Site, reverse_complement
from latentstruct.viz.report.blocks import Drawing, FactList, Group, Letters, TableBlock, Text, Tokens
from latentstruct.viz.report.model import model_page


def train(folder, kind, text, *options, name="data.txt"):
    """Return the kind, the trained model and examples of its own training data."""
    data = folder / name
    data.write_text(text, encoding="utf-8")
    run("train", kind, data, "-o", folder / "model", "-q", *options)
    return examples_of(folder / "model", data=str(data))


def examples_of(model, **held_out):
    kind, trained = load_trained(model)
    data = kind.read(trained, HeldOut(**held_out))
    return kind, trained, kind.examples(trained, data, "data")


def flat(blocks):
    return [one for block in blocks for one in (flat(block.blocks) if isinstance(block, Group) else [block])]


def of(kind, blocks):
    return [block for block in flat(blocks) if isinstance(block, kind)]


def page(kind, trained, examples):
    """Return the text of the page: every drawing is drawn, and warnings are errors."""
    return model_page(kind, trained, examples).html()


SENTENCES = "the DT\ndog NN\nbarks VB\n\nthe DT\ncat NN\nsleeps VB\n\n言葉 NN\nbarks VB\n\n"


def test_chains_of_half_labeled_text(tmp_path):
    half = SENTENCES.replace("dog NN", "dog ?") + "no ?\none ?\n\n"
    kind, trained, examples = train(tmp_path, "chain", half, "--unknown", "?", "--max-iter", "30")
    assert examples.losses[:3].tolist() == [0.0, 0.0, 0.0]
    assert np.isnan(examples.losses[3])
    assert examples.remarks[0] == "2 of 3 labels are known"
    (tokens,) = of(Tokens, examples.draw(0))
    assert [token.text for token in tokens.tokens] == ["the", "dog", "barks"]
    assert [token.mark for token in tokens.tokens] == ["", "unknown", ""]
    assert tokens.tokens[1].truth == ""
    assert "below 90%" in tokens.caption
    assert "言葉" in page(kind, trained, examples)


def test_wrong_labels_of_chains(tmp_path):
    kind, trained, _ = train(tmp_path, "chain", SENTENCES, "--model", "svm")
    other = tmp_path / "other.txt"
    other.write_text("the NN\ndog NN\nbarks XX\n", encoding="utf-8")
    _, _, examples = examples_of(trained.path, data=str(other), allow_unknown=True)
    assert examples.losses.tolist() == [2 / 3]
    assert examples.remarks == ["predicted DT, true NN; predicted VB, true XX"]
    (tokens,) = of(Tokens, examples.draw(0))
    assert [(token.label, token.truth, token.mark) for token in tokens.tokens] == [
        ("DT", "NN", "wrong"),
        ("NN", "", ""),
        ("VB", "XX", "wrong"),
    ]
    # This model has no probabilities to tell.
    assert tokens.caption == ""
    table = of(TableBlock, examples.overview)[-1]
    assert [row[:3] for row in table.rows] == [["NN", "DT", 1], ["XX", "VB", 1]]
    (weights,) = of(TableBlock, kind.weight_blocks(trained))
    assert [row[0] for row in weights.rows] == ["DT", "NN", "VB"]
    assert "word: the (+" in weights.rows[0][1]


def test_long_sentences_and_strange_labels_of_chains(tmp_path):
    labels = [f"標{k}" for k in range(30)]
    text = "".join(f"{'w' * 99}{k} {labels[k % 30]}\n" for k in range(600))
    kind, trained, examples = train(tmp_path, "chain", text, "--max-iter", "2")
    (tokens,) = of(Tokens, examples.draw(0))
    assert len(tokens.tokens) == 400
    assert "200 further words are not shown." in tokens.caption
    assert max(len(token.text) for token in tokens.tokens) == 40
    # Labels that the font of plots lacks are shown in a table.
    transitions, features = kind.weight_blocks(trained)
    assert isinstance(transitions, TableBlock)
    assert "25 of 30 labels" in features.note
    assert len(features.rows) == 25


@given(st.lists(st.text(min_size=1, max_size=4), min_size=1, max_size=3))
@settings(max_examples=60, deadline=None)
def test_features_of_chains_are_told_with_their_values(sentence):
    template = WindowFeatures(window=1, affixes=1).fit([[(word, "T|\\") for word in sentence]])
    reported = {name: show_feature(name, [0, 4]) for name in template.vocabulary_}
    assert reported["bias"] == "any token"
    assert all(f"word: {word}" in reported.values() and f"prefix: {word[0]}" in reported.values() for word in sentence)
    assert "column 4: T|\\" in reported.values()
    assert "word at −1: edge" in reported.values()
    assert all(f"word at −1, 0: {a} {b}" in reported.values() for a, b in pairwise(sentence))


def samples(n=60):
    rng = np.random.default_rng(0)
    rows = [(x, y, "far" if x + y > 0.5 else ("near" if x > y else "nowhere")) for x, y in rng.normal(size=(n, 2))]
    return "言葉,width,label\n" + "".join(f"{x:.3f},{y:.3f},{label}\n" for x, y, label in rows)


@pytest.mark.parametrize("model", ["svm", "crf"])
def test_classes_and_what_speaks_for_them(tmp_path, model):
    kind, trained, examples = train(tmp_path, "classes", samples(), "--model", model, name="data.csv")
    X, y = kind.read(trained, HeldOut(data=str(tmp_path / "data.csv")))
    labels, predicted = trained.estimator.task_.labels_.labels, trained.estimator.predict(X).tolist()
    assert examples.losses.tolist() == [float(a != b) for a, b in zip(y, predicted, strict=True)]
    scores = trained.estimator.decision_function(X)
    for i in (int(np.argmax(examples.losses)), int(np.argmin(examples.losses))):
        facts, table = examples.draw(i)
        rival = labels.index(y[i]) if y[i] != predicted[i] else int(np.argsort(-scores[i])[1])
        assert float(table.rows[-1][2]) == pytest.approx(scores[i].max() - scores[i, rival], rel=0.01, abs=0.01)
        assert {row[0] for row in table.rows} == {"言葉", "width", "constant", "sum"}
        reported = dict(facts.facts)
        assert "predicted" in reported[predicted[i]]
        assert "true" in reported[y[i]]
        assert ("probability" in reported[y[i]]) == (model == "crf")
    wrong = sum(row[2] for table in of(TableBlock, examples.overview) for row in table.rows)
    assert wrong == examples.losses.sum()
    assert page(kind, trained, examples).count("Contributions for") > 2


def test_classes_of_samples_without_features_and_with_unknown_ones(tmp_path):
    text = "1 1:1\n2 2:1\n3 3:1\n1 1:2\n2 2:2\n3 3:2\n"
    _, trained, _ = train(tmp_path, "classes", text, "--bias", "0")
    other = tmp_path / "other.txt"
    other.write_text("7\n1 1:1\n", encoding="utf-8")
    _, _, examples = examples_of(trained.path, data=str(other), allow_unknown=True)
    assert examples.losses.tolist() == [1.0, 0.0]
    facts, table = examples.draw(0)
    assert dict(facts.facts)["7"] == "true, unknown to the model"
    assert [row[0] for row in table.rows] == ["sum"]


@pytest.mark.parametrize("optimize", ["f1", "rocarea"])
def test_measures_and_what_speaks_for_them(tmp_path, optimize):
    text = samples().replace("nowhere", "near")
    options = ("--optimize", optimize, "--positive-label", "far")
    kind, trained, examples = train(tmp_path, "measure", text, *options, name="data.csv")
    X, truth = kind.read(trained, HeldOut(data=str(tmp_path / "data.csv")))
    scores = -trained.estimator.decision_function(X)
    np.testing.assert_allclose(examples.losses, np.maximum(np.where(truth, -scores, scores), 0.0))
    for i in (0, 1):
        (table,) = examples.draw(i)
        threshold = float(table.note.split("threshold ")[1].split(",")[0])
        assert float(table.rows[-1][2]) - threshold == pytest.approx(scores[i], rel=0.02, abs=0.02)
        assert f"prediction is {'far' if scores[i] > 0 else 'near'}." in table.note
    assert len(of(Drawing, examples.overview)) == 1
    # The name of a feature that plots cannot draw is shown in a table.
    assert of(TableBlock, kind.weight_blocks(trained))[0].rows
    assert "truly far" not in examples.remarks[0]
    assert "Contributions for far" in page(kind, trained, examples)


MOTIF = "TTGACATG"


def dna(seed, with_motif, length=60, turned=False):
    rng = random.Random(seed)
    letters = [rng.choice("ACGT") for _ in range(length)]
    if with_motif:
        at = rng.randrange(length - len(MOTIF))
        letters[at : at + len(MOTIF)] = reverse_complement(MOTIF) if turned else MOTIF
    return "".join(letters)


@pytest.fixture(scope="module")
def motif(tmp_path_factory):
    folder = tmp_path_factory.mktemp("motif")
    data = folder / "data.fa"
    rows = [f">s{k} label={1 if k < 15 else -1}\n{dna(k, k < 15, turned=k % 2 == 1)}\n" for k in range(40)]
    data.write_text("".join(rows))
    options = ("--width", 8, "--strands", 2, "-q", "--restarts", 2, "--valid", data, "--report", folder / "report.html")
    run("train", "motif", data, "-o", folder / "model", *options)
    return folder


def test_motifs_and_their_sites(motif):
    kind, trained, examples = examples_of(motif / "model", data=str(motif / "data.fa"))
    assert "held out from training" in (motif / "report.html").read_text(encoding="utf-8")
    sites = {one.sequence: one for one in read_sites(motif / "model" / "sites.bed")}
    data = kind.read(trained, HeldOut(data=str(motif / "data.fa")))
    strands = set()
    for i, (name, sequence) in enumerate(zip(data.positive.names, data.positive.sequences, strict=True)):
        (letters,) = of(Letters, examples.draw(i))
        lines = dict(letters.lines)
        marked = [text for _, runs in letters.lines for text, mark in runs if mark == "latent"]
        site = sites[name]
        strands.add(site.strand)
        # The other strand is written from left to right like the given one, and read backwards.
        assert marked == [site.site if site.strand > 0 else site.site[::-1]]
        assert f"letters {site.start + 1} to {site.end} of {len(sequence)}" in letters.caption
        strand = "".join(text for text, _ in lines["5′" if site.strand > 0 else "3′"])
        at = len(lines["motif"][0][0]) - 8
        assert strand[at : at + 8] == marked[0]
    assert strands == {1, -1}
    assert len(of(Drawing, examples.overview)) == 1
    assert len(of(Drawing, kind.weight_blocks(trained))) == 1
    lead = kind.lead_blocks(trained)
    # The logo comes first, then its significance, then the sites and where they begin.
    assert [type(block) for block in lead] == [Drawing, FactList, TableBlock, Drawing]
    assert dict(lead[1].facts)["significance"] == "not tested, as no sequences were held out"
    assert [row[0] for row in lead[2].rows] == [one.sequence for one in sorted(sites.values(), key=lambda s: -s.score)]


def test_known_sites_of_motifs(motif, tmp_path):
    found = read_sites(motif / "model" / "sites.bed")
    hit, missed = found[0], found[1]
    far = 0 if missed.start > 20 else 45
    table = tmp_path / "sites.tsv"
    table.write_text(
        f"sequence\tstart\tend\n{hit.sequence}\t{hit.start}\t{hit.end}\n{missed.sequence}\t{far}\t{far + 8}\n"
    )
    _, _, examples = examples_of(motif / "model", data=str(motif / "data.fa"), sites=str(table))
    assert dict(examples.scores)["sites hit"] == "50.00 % of 2 sequences"
    assert examples.remarks[0].endswith("site hit")
    assert examples.remarks[1].endswith("site missed")
    marks = [
        {mark for block in of(Letters, examples.draw(i)) for _, runs in block.lines for _, mark in runs} - {""}
        for i in range(3)
    ]
    assert marks == [{"right"}, {"wrong", "missed"}, {"latent"}]


def test_motifs_without_the_files_beside_them(motif, tmp_path):
    import shutil

    copy = tmp_path / "copy"
    shutil.copytree(motif / "model", copy)
    (copy / "motif.meme").unlink()
    (copy / "sites.bed").unlink()
    kind, trained = load_trained(copy)
    reported = [block.text for block in of(Text, kind.lead_blocks(trained))]
    assert [text.split(": ")[1] for text in reported] == ["motif.meme is missing."]


def test_long_sequences_are_cut_around_their_site(motif, tmp_path):
    long = "A" * 700 + MOTIF + "A" * 700
    other = tmp_path / "long.fa"
    other.write_text(f">long label=1\n{long}\n>other label=-1\n{'C' * 50}\n")
    _, _, examples = examples_of(motif / "model", data=str(other))
    (letters,) = of(Letters, examples.draw(0))
    given = "".join(text for text, _ in dict(letters.lines)["5′"])
    assert given.startswith("…")
    assert given.endswith("…")
    assert len(given) < 40


def test_tables_of_sites(tmp_path):
    sites = [Site("a", 3, 8, 1, 1.5, "ACGTA"), Site("b c", 0, 5, -1, -0.25, "TTTTT")]
    write_sites(tmp_path / "sites.tsv", sites)
    assert read_sites(tmp_path / "sites.tsv") == sites
    header = "#sequence\tstart\tend\tmotif\tscore\tstrand\tsite\n"
    for text, line, expected in (
        ("a\tb\n", 1, "the header"),
        (f"{header}a\t3\tx\tm\t1\t+\tA\n", 2, "the seven columns"),
    ):
        (tmp_path / "sites.tsv").write_text(text)
        with raises(file="sites.tsv", line=line, expected=expected):
            read_sites(tmp_path / "sites.tsv")


@st.composite
def matches(draw, sizes):
    m = draw(st.integers(0, min(sizes)))
    columns = [sorted(draw(st.permutations(range(size)))[:m]) for size in sizes]
    return np.array(columns, dtype=np.int64).T.reshape(m, 2)


@given(st.data(), st.integers(1, 8), st.integers(1, 8), st.integers(0, 2))
@settings(max_examples=80, deadline=None)
def test_columns_of_alignments(data, n, m, shift):
    sequences = ("ACDEFGHI"[:n], "KLMNPQRS"[:m])
    truth, found = data.draw(matches((n, m))), data.draw(matches((n, m)))
    columns = list(align_columns(sequences, truth, found, shift))
    for side, name in enumerate(("first", "second")):
        assert "".join(getattr(one, name) for one in columns).replace("-", "") == sequences[side]
    assert [[one.first_at, one.second_at] for one in columns if one.sign != " "] == found.tolist()
    marks = [one.mark for one in columns]
    assert marks.count("right") == count_hits(truth, found, shift)
    assert sum(one.sign == "|" for one in columns) == count_hits(truth, found, 0)
    silent = sum(i not in truth[:, 0] and j not in truth[:, 1] for i, j in found.tolist())
    assert marks.count("unknown") == silent
    lost = len(set(truth[:, 0].tolist()) - set(found[:, 0].tolist()))
    lost += len(set(truth[:, 1].tolist()) - set(found[:, 1].tolist()))
    assert marks.count("missed") == lost


def test_alignments(tmp_path):
    rng = random.Random(0)
    rows = []
    for k in range(4):
        core = "".join(rng.choice("ACDEFGHIKLMNPQRSTVWY") for _ in range(1000 if k == 0 else 40))
        rows.append(f">a{k}\nWW{core}--\n>b{k}\n--{core}WW\n")
    kind, trained, examples = train(tmp_path, "align", "".join(rows), name="pairs.fa")
    np.testing.assert_allclose(examples.losses, 0.0)
    (letters,) = of(Letters, examples.draw(1))
    assert {mark for _, runs in letters.lines for _, mark in runs} >= {"right"}
    (long,) = of(Letters, examples.draw(0))
    assert len(long.lines) == 12 * 4 - 1
    assert max(sum(len(text) for text, _ in runs) for _, runs in long.lines) == 60
    assert "further columns are not shown." in long.caption
    assert "first letter against a gap" in page(kind, trained, examples)


BANK = (
    "(S (NP (DT the) (NN dog)) (VP (VB saw) (NP (DT the) (NN cat))))\n"
    "(S (NP (PRP$ his) (NN cat)) (VP (VB slept)))\n"
    "(S (NP (DT the) (NN cat)) (VP (VB saw) (NP (NP (DT the) (NN dog)) (PP (IN in) (NP (DT the) (NN park))))))\n"
    "(S (NP (DT the) (NN cat)) (VP (VB put) (NP (DT the) (NN dog)) (PP (IN in) (NP (DT the) (NN park)))))\n"
    "(S (NP (DT the) (NN cat)) (VP (VB left) (NP (DT the) (NN dog)) (PP (IN in) (NP (DT the) (NN park)))))\n"
)


@pytest.mark.parametrize("model", ["svm", "latent"])
def test_parsers_and_their_trees(tmp_path, model):
    kind, trained, examples = train(tmp_path, "parse", BANK, "--model", model, name="bank.mrg")
    assert examples.losses[:2].tolist() == [0.0, 0.0]
    assert [len(of(Drawing, examples.draw(i))) for i in range(2)] == [1, 1]
    assert "the dog saw the cat" in of(Drawing, examples.draw(0))[0].alt
    shown = page(kind, trained, examples)
    assert "Rules most avoided" in shown
    assert ("hidden variants" in shown) == (model == "latent")
    other = tmp_path / "other.mrg"
    other.write_text("(S (NP (DT the) (NN dog)) (VP (VB saw) (XP (DT the) (NN cat))))\n", encoding="utf-8")
    _, _, wrong = examples_of(trained.path, data=str(other))
    assert wrong.losses.tolist() == [2.0]
    assert wrong.remarks == ["5 words, 1 constituents wrong, 1 of 4 missing"]
    captions = [drawing.caption for drawing in of(Drawing, wrong.draw(0))]
    assert captions == ["Framed constituents are wrong.", "Framed constituents are not predicted."]


def test_long_sentences_and_strange_words_of_parsers(tmp_path):
    long = f"(S {' '.join(f'(NP (NN word{k}))' for k in range(400))})\n"
    _, trained, examples = train(tmp_path, "parse", BANK + "(S (NP (NN 言葉)))\n", name="bank.mrg")
    (letters,) = of(Letters, examples.draw(5))
    assert "言葉" in "".join(text for _, runs in letters.lines for text, _ in runs)
    other = tmp_path / "long.mrg"
    other.write_text(long, encoding="utf-8")
    _, _, judged = examples_of(trained.path, data=str(other))
    assert max(len(block.lines) for block in of(Letters, judged.draw(0))) == 300
    assert "further lines are not shown" in of(Letters, judged.draw(0))[-1].caption


@given(trees(most_words=7), st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_trees_as_lines(tree, rng):
    spans = constituents(tree)
    marked = rng.sample(spans, rng.randint(0, len(spans)))
    lines = outline(tree, marked, "wrong")
    runs = [run for _, runs in lines for run in runs]
    assert sorted(text for text, mark in runs if mark == "wrong") == sorted(one.label for one in marked)
    assert [runs[-1][0].split()[-1] for _, runs in lines if " " in runs[-1][0]] == words(tree)
