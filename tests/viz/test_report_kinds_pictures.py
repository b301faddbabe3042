"""What reports show of clusters, rankings, diverse subsets, regions, boxes and graphs."""

import json

import numpy as np
import pytest
from matplotlib import pyplot

from command import run
from error_fields import raises
from latentstruct.cli.kinds.cluster import report as clusters
from latentstruct.cli.kinds.cluster.report import ITEMS_SHOWN, Clustering
from latentstruct.cli.kinds.detect import report as detect
from latentstruct.cli.kinds.segment import report as segment
from latentstruct.cli.options import HeldOut
from latentstruct.cli.registry import KINDS, load_trained
from latentstruct.features.geometry import box_geometry
from latentstruct.viz.report.blocks import Drawing, FactList, Group, Photo, TableBlock, Text, Tokens
from pictures import write_pictures

OPTIONS = {
    "coreference": [],
    "cluster": ["--model", "latent"],
    "rank": ["--k", "3"],
    "diverse": ["-C", "10"],
    "segment": ["--max-iter", "1", "--words", "20"],
    "detect": ["--no-cache", "--boxes", "40", "--max-iter", "2"],
    "graph": ["--max-iter", "2"],
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Return a function that trains on a kind's example data and returns the data, the kind and the model."""
    made = {}

    def get(name, *options):
        if (name, *options) not in made:
            folder = tmp_path_factory.mktemp(name)
            data = folder / KINDS[name].example_file
            data.write_bytes(KINDS[name].example())
            run("train", name, data, "-q", "-o", folder / "model", *OPTIONS[name], *options)
            made[name, *options] = (data, *load_trained(folder / "model"))
        return made[name, *options]

    return get


def show_examples(data, kind, model, **options):
    held_out = HeldOut(str(data), **options)
    return kind.examples(model, kind.read(model, held_out), "a file"), held_out


def check_block(block):
    """Draw a block; raise if it holds nothing."""
    if isinstance(block, Drawing):
        figure, axes = pyplot.subplots(figsize=(block.width, block.height), layout="constrained")
        block.draw(axes)
        assert axes.has_data() or axes.texts or axes.patches
        figure.canvas.draw()
        pyplot.close(figure)
        assert block.alt.endswith(".")
    elif isinstance(block, Photo):
        assert block.pixels.dtype == np.uint8
        assert block.pixels.ndim == 3
        assert max(block.pixels.shape) <= 600
        assert block.alt
    elif isinstance(block, TableBlock):
        assert block.rows
        assert {len(row) for row in block.rows} == {len(block.columns)}
    elif isinstance(block, Group):
        for inner in block.blocks:
            check_block(inner)
    elif isinstance(block, Tokens):
        assert block.tokens
    elif isinstance(block, FactList):
        assert block.facts
    else:
        assert isinstance(block, Text)
        assert block.text


@pytest.mark.parametrize("name", OPTIONS)
def test_scores_and_losses_are_those_of_the_evaluation_and_all_blocks_can_be_drawn(trained, name):
    data, kind, model = trained(name)
    shown, held_out = show_examples(data, kind, model)
    assert list(shown.scores) == kind.summarize(kind.evaluate(model, held_out))
    n = len(shown.names)
    assert n == kind.evaluate(model, held_out)["n_examples"]
    assert len(shown.remarks) == len(shown.losses) == n
    assert (shown.losses >= 0).all()
    assert shown.source == "a file"
    for block in [*kind.weight_blocks(model), *shown.overview]:
        check_block(block)
    for i in (int(shown.losses.argmax()), int(shown.losses.argmin())):
        for block in shown.draw(i):
            check_block(block)


def test_standard_input_can_be_trained_on_and_reported(tmp_path):
    page = tmp_path / "report.html"
    items = KINDS["cluster"].example()
    run("train", "cluster", "-", "-q", "-o", tmp_path / "model", "--report", page, stdin=items)
    text = page.read_text()
    assert "standard input, the training data" in text
    assert "<svg" in text


# ---- clusters ---------------------------------------------------------------------------------------------------


def test_forests_are_those_of_the_model(trained):
    data, kind, model = trained("coreference")
    shown, _ = show_examples(data, kind, model)
    worst = int(shown.losses.argmax())
    drawing = next(block for block in shown.draw(worst) if isinstance(block, Drawing))
    figure, axes = pyplot.subplots()
    drawing.draw(axes)
    arcs = [line for line in axes.lines if len(line.get_xdata()) > 1]
    pyplot.close(figure)
    documents = kind.read(model, HeldOut(str(data)))
    assert len(documents[worst].mentions) <= ITEMS_SHOWN, "the example is short enough to be shown whole"
    forest = model.estimator.predict_latent(model.features.transform(documents[worst : worst + 1]))[0]
    assert len(arcs) == len(forest)
    crossing = sum(documents[worst].clusters[i] != documents[worst].clusters[j] for i, j in forest.tolist())
    assert sum(line.get_linestyle() == "--" for line in arcs) == crossing
    tokens = next(block for block in shown.draw(worst) if isinstance(block, Tokens)).tokens
    assert sum(bool(token.label) for token in tokens) <= len(documents[worst].mentions)
    mentions, sentences = documents[worst].mentions, documents[worst].sentences
    words = [word for s in range(mentions[0].sentence, mentions[-1].sentence + 1) for word in sentences[s]]
    assert [word for token in tokens for word in token.text.split()] == words


def test_of_long_documents_the_part_with_the_most_errors_is_shown():
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 20, 500)
    found = truth.copy()
    found[300:330] = rng.integers(20, 25, 30)  # everything wrong here
    forest = np.column_stack([np.arange(499), np.arange(1, 500)])
    whole = Clustering([f"item {k}" for k in range(500)], found, truth, forest)
    window, part = whole.part()
    assert len(part.names) == ITEMS_SHOWN
    assert window.start <= 302
    assert window.stop >= 328
    assert part.forest.max() == ITEMS_SHOWN - 1
    assert part.names[0] == f"item {window.start}"
    assert whole.errors()[300:330].mean() > 0.8
    assert not Clustering(whole.names, truth, truth, None).errors().any()


def test_without_a_forest_clusters_are_a_table(trained):
    data, kind, model = trained("cluster", "--model", "correlation")
    shown, _ = show_examples(data, kind, model)
    assert shown.loss_name == "fraction of wrong pairs"
    table = next(block for block in shown.draw(0) if isinstance(block, TableBlock))
    groups = kind.read(model, HeldOut(str(data)))
    assert sum(row[-1] for row in table.rows) == min(len(groups.items[0]), ITEMS_SHOWN)


def test_texts_that_the_font_lacks_are_a_table_too():
    one = Clustering(["東京", "彼", "x"], np.array([0, 0, 1]), np.array([0, 0, 1]), np.array([[0, 1]]))
    (table,) = clusters.draw(one, "mentions")
    assert table == clusters.cluster_table(one, "mentions")
    assert table.rows == [["1", "東京 (A) · 彼 (A)", 2], ["–", "x (–)", 1]]


# ---- rankings and diversity -------------------------------------------------------------------------------------


def test_rankings_tell_the_latent_choice(trained):
    data, kind, model = trained("rank")
    shown, _ = show_examples(data, kind, model)
    queries = kind.read(model, HeldOut(str(data)))
    table = next(block for block in shown.draw(0) if isinstance(block, TableBlock))
    chosen = model.estimator.complete(queries.X[:1], queries.Y[:1])[0]
    lower = [block.text for block in shown.draw(0) if isinstance(block, Text)]
    marked = sum(row[1] == "yes" for row in table.rows)
    assert marked == len(chosen) or "Further down" in lower[0]
    assert [row[2] for row in table.rows] == list(range(1, len(table.rows) + 1))
    scores = [row[-1] for row in table.rows]
    assert scores == sorted(scores, reverse=True)
    assert "latent choice" in table.columns


def test_pairwise_rankings_have_no_latent_choice(trained):
    data, kind, model = trained("rank", "--model", "pairwise")
    shown, _ = show_examples(data, kind, model)
    table = next(block for block in shown.draw(0) if isinstance(block, TableBlock))
    assert table.columns == ("document", "rank", "grade", "score")
    assert shown.loss_name == "fraction of pairs in the wrong order"


def test_covered_and_missed_subtopics_are_all_there_are(trained):
    data, kind, model = trained("diverse")
    shown, _ = show_examples(data, kind, model)
    queries = kind.read(model, HeldOut(str(data)))
    for i in (0, len(queries) - 1):
        table, facts = shown.draw(i)
        assert len(table.rows) == model.estimator.task_.k
        reported = [text for _, texts in facts.facts for text in texts.split(", ") if text != "none"]
        assert len(reported) == len({topic for topics in queries[i].subtopics for topic in topics})
        n_covered = 0 if facts.facts[0][1] == "none" else len(facts.facts[0][1].split(", "))
        assert shown.remarks[i].startswith(f"{n_covered} of {len(reported)} subtopics covered")


# ---- images -----------------------------------------------------------------------------------------------------


def test_regions_are_shown_beside_the_image_and_the_truth(trained):
    data, kind, model = trained("segment")
    shown, _ = show_examples(data, kind, model)
    *photographs, legend = shown.draw(0)
    assert [type(block) for block in photographs] == [Photo] * 3
    assert photographs[0].caption == "The image"
    assert len({block.pixels.shape for block in photographs}) == 1
    assert legend.alt.startswith("The colors of the labels 1  ")


def test_a_label_has_the_same_number_in_all_images(trained, monkeypatch):
    data, kind, model = trained("segment")
    shown, _ = show_examples(data, kind, model)
    last = model.record.labels[-1]
    monkeypatch.setattr(segment, "fit_labels", lambda _, shape: np.full(shape[:2], last))
    *_, legend = shown.draw(0)
    assert legend.alt == f"The colors of the labels {len(model.record.labels)}  {model.record.names[-1]}."


def test_unknown_pixels_and_labels_do_not_stop_a_report(trained, tmp_path):
    _, kind, model = trained("segment")
    images, labels = write_pictures(tmp_path, 3, 1, share=1.0)
    with raises(file="labels", expected="labeled pixels"):
        show_examples(images, kind, model, labels=str(labels))
    images, labels = write_pictures(tmp_path / "more", 3, 1, share=0.4)
    shown, held_out = show_examples(images, kind, model, labels=str(labels), allow_unknown=True)
    assert "Hatched: unknown" in shown.draw(0)[2].caption
    accuracy = kind.evaluate(model, held_out)["image_accuracy"]
    assert 1.0 - shown.losses.mean() == pytest.approx(accuracy)


def test_boxes_have_the_distribution_of_a_modlat_model_only(trained):
    data, kind, model = trained("detect")
    shown, _ = show_examples(data, kind, model)
    photographs = [block for block in shown.draw(0) if isinstance(block, Photo)]
    assert len(photographs) == 2
    assert "the latent box" in photographs[1].caption
    data, kind, model = trained("detect", "--model", "latent")
    shown, _ = show_examples(data, kind, model)
    assert sum(isinstance(block, Photo) for block in shown.draw(0)) == 1


def test_losses_of_boxes_are_the_overlap_loss(trained):
    data, kind, model = trained("detect")
    shown, held_out = show_examples(data, kind, model)
    scores = kind.evaluate(model, held_out)
    assert scores["n_with_boxes"] == len(shown.names), "all images of the example have true boxes"
    assert shown.losses.mean() == pytest.approx(scores["overlap"])


def test_each_class_has_a_template_and_places(trained):
    _, kind, model = trained("detect")
    groups = [block for block in kind.weight_blocks(model) if isinstance(block, Group)]
    assert [group.title for group in groups] == [str(label) for label in model.estimator.classes_]
    assert all(len(group.blocks) == 2 for group in groups)


def test_places_are_those_that_choose_the_box(trained, monkeypatch):
    _, kind, model = trained("detect")
    drawn = []
    monkeypatch.setattr(detect, "plot_box_places", lambda weights, _: drawn.append(weights))
    for group in kind.weight_blocks(model):
        if isinstance(group, Group):
            group.blocks[1].draw(None)
    features, estimator = model.features, model.estimator
    # A box scores as much by the drawn weights as by all, if its other features are zero.
    n_labels, n_places = len(estimator.classes_), len(drawn[0])
    image = np.random.default_rng(0).integers(0, 255, (60, 80, 3), dtype=np.uint8)
    found = features.transform([image])[0]
    geometry = box_geometry(found.boxes, 80, 60)
    own = np.zeros_like(found.features)
    own[:, features.n_appearance_ : features.n_appearance_ + n_places] = features.geometry * geometry
    scores = own @ estimator.coef_[: own.shape[1] * n_labels].reshape(-1, n_labels)
    np.testing.assert_allclose(geometry @ np.transpose(drawn), scores, atol=1e-6)


# ---- graphs -----------------------------------------------------------------------------------------------------


def write_graphs(path, n_graphs, n_nodes, seed):
    """Write paths of nodes whose labels follow a feature that is often wrong, with a hidden node at each end."""
    rng = np.random.default_rng(seed)
    lines = []
    for _ in range(n_graphs):
        labels = rng.integers(0, 2, n_nodes // 2).repeat(2).tolist()
        nodes = [
            {
                "features": {"seen": bool(label) ^ bool(rng.random() < 0.2)},
                "label": "ab"[label] if rng.random() < 0.9 else None,
            }
            for label in labels
        ]
        nodes.append({"type": "topic"})
        edges = [[k, k + 1] for k in range(len(labels) - 1)] + [[0, len(labels)]]
        lines.append(json.dumps({"nodes": nodes, "edges": edges}))
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="module")
def graph_model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("graphs")
    data = write_graphs(folder / "train.jsonl", 20, 10, 0)
    run("train", "graph", data, "-q", "-o", folder / "model", "--hidden", "topic=2", "--max-iter", "2")
    return load_trained(folder / "model")


def test_hidden_states_are_drawn_as_squares_and_have_norms(graph_model, tmp_path):
    kind, model = graph_model
    norms = [
        block for block in kind.weight_blocks(model) if isinstance(block, Drawing) and "Hidden nodes" in block.caption
    ]
    assert len(norms) == 1
    check_block(norms[0])
    shown, _ = show_examples(write_graphs(tmp_path / "test.jsonl", 4, 10, 1), kind, model)
    drawing = next(block for block in shown.draw(0) if isinstance(block, Drawing))
    assert "squares: hidden nodes" in drawing.caption
    figure, axes = pyplot.subplots()
    drawing.draw(axes)
    assert sum(text.get_text() in ("h0", "h1") for text in axes.texts) == 1
    pyplot.close(figure)


def test_of_large_graphs_a_part_is_shown(graph_model, tmp_path):
    kind, model = graph_model
    shown, _ = show_examples(write_graphs(tmp_path / "test.jsonl", 1, 1000, 2), kind, model)
    reported, drawing, table = shown.draw(0)
    assert reported.text.startswith("60 of 1001 nodes")
    check_block(drawing)
    assert len(table.rows) == 15
    assert table.title.startswith("The first 15 of ")
    n_wrong = int(table.title.split()[4])
    assert drawing.caption.startswith("Predicted labels; red rings: ")
    known = sum(node.label is not None for node in kind.read(model, HeldOut(str(tmp_path / "test.jsonl")))[0].nodes)
    assert shown.losses[0] == pytest.approx(n_wrong / known)


def test_weights_of_single_edges_are_a_table(tmp_path):
    data = write_graphs(tmp_path / "train.jsonl", 12, 6, 0)
    run("train", "graph", data, "-q", "-o", tmp_path / "model", "--unshared", "--max-iter", "2")
    kind, model = load_trained(tmp_path / "model")
    nodes, edges = kind.weight_blocks(model)
    assert nodes.columns == ("nodes", "feature", "label", "weight")
    assert edges.columns == ("edge", "feature", "labels", "weight")
    strongest = max(abs(row[-1]) for row in nodes.rows + edges.rows)
    assert strongest == pytest.approx(np.abs(model.estimator.coef_).max())


def test_graphs_without_a_known_label_are_not_judged(graph_model, tmp_path):
    kind, model = graph_model
    data = write_graphs(tmp_path / "test.jsonl", 2, 10, 1)
    first, second = map(json.loads, data.read_text().splitlines())
    for node in second["nodes"]:
        node.pop("label", None)
    data.write_text(json.dumps(first) + "\n" + json.dumps(second) + "\n")
    shown, _ = show_examples(data, kind, model)
    assert np.isnan(shown.losses[1])
    assert shown.remarks[1] == "11 nodes: no label is known"
