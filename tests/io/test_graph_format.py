import gzip
import json

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import sparse

from error_fields import raises
from latentstruct.exceptions import FormatError
from latentstruct.io import (
    GraphFeatures,
    GraphRecord,
    graph_labels,
    predicted_graphs,
    read_graphs,
    write_graphs,
)

EXAMPLE = {
    "id": "s1",
    "nodes": [
        {"name": "cat", "type": "word", "features": {"length": 3, "suffix": "at"}, "label": "noun"},
        {"name": "sat", "type": "word", "features": {"length": 4, "past": True, "short": False}, "label": None},
        {"type": "topic"},
    ],
    "edges": [
        {"between": ["cat", "sat"], "type": "next", "features": {"distance": 1.5}},
        {"between": [0, 2], "features": {"kind": "about"}},
        [1, "cat"],
    ],
}


def spell(graphs, tmp_path, name="graphs.jsonl"):
    path = tmp_path / name
    path.write_text("".join((graph if isinstance(graph, str) else json.dumps(graph)) + "\n" for graph in graphs))
    return path


def dense(matrix):
    return matrix.toarray() if sparse.issparse(matrix) else matrix


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("graphs")


def test_example_is_read(tmp_path):
    records = read_graphs(spell([EXAMPLE, "", EXAMPLE], tmp_path))
    assert [record.id for record in records] == ["s1", "s1"]
    assert records[0].pairs().tolist() == [[0, 1], [0, 2], [1, 0]]
    assert graph_labels(records) == [["noun", -1, -1]] * 2
    features = GraphFeatures().fit(records)
    assert features.nodes_.labels() == ["length", "suffix=at", "past", "short", "bias"]
    assert features.edges_.labels() == ["distance", "kind=about", "bias"]
    graph = features.transform(records)[1]
    assert dense(graph.features).tolist() == [[3, 1, 0, 0, 1], [4, 0, 1, 0, 1], [0, 0, 0, 0, 1]]
    assert dense(graph.edge_features).tolist() == [[1.5, 0, 1], [0, 1, 1], [0, 0, 1]]
    assert graph.node_types == ["word", "word", "topic"]
    assert graph.edge_types == ["next", "edge", "edge"]


def test_lists_of_features(tmp_path):
    graphs = [
        {"nodes": [{"features": [1, 2.5], "label": 3}, {"label": -1}, {"features": [0, -1]}]},
        {"nodes": [{"features": [4, 5], "label": 0}], "edges": []},
    ]
    records = read_graphs(spell(graphs, tmp_path))
    assert graph_labels(records) == [[3, -1, -1], [0]]
    X = GraphFeatures(bias=False).fit(records).transform(records)
    assert X[0].features.tolist() == [[1, 2.5], [0, 0], [0, -1]]
    assert X[1].edges.shape == (0, 2)
    assert X[0].edge_features is None
    assert GraphFeatures().fit(records).transform(records)[1].features.tolist() == [[4, 5, 1]]


def test_compressed_files_and_graphs_without_features(tmp_path):
    path = tmp_path / "graphs.jsonl.gz"
    path.write_bytes(gzip.compress(b'{"nodes": [{}, {}], "edges": [[0, 1]]}'))
    records = read_graphs(path)
    assert dense(GraphFeatures().fit(records).transform(records)[0].features).tolist() == [[1], [1]]
    with raises("records", got="no features", expected="graphs with features of nodes if `bias` is False"):
        GraphFeatures(bias=False).fit(records)


NAMES = st.sampled_from(["a", "b", "c", "ä=1"])
VALUES = st.one_of(st.floats(-1e9, 1e9), st.booleans(), st.sampled_from(["x", "y"]), st.integers(-5, 5))


@st.composite
def graphs(draw):
    n = draw(st.integers(1, 4))
    nodes = []
    for k in range(n):
        node = {"features": draw(st.dictionaries(NAMES, VALUES))} if draw(st.booleans()) else {}
        node |= {"name": f"n{k}"} if draw(st.booleans()) else {}
        node |= {"type": draw(NAMES)} if draw(st.booleans()) else {}
        # The text -1 is refused, as it looks like the number that marks unknown labels.
        node |= {"label": draw(st.one_of(st.none(), st.text(max_size=3).filter(lambda text: text.strip() != "-1")))}
        nodes.append(node)
    ends = [[k, *([node["name"]] if "name" in node else [])] for k, node in enumerate(nodes)]
    edges = []
    for _ in range(draw(st.integers(0, 3)) if n > 1 else 0):
        first, second = draw(st.permutations(range(n)))[:2]
        pair = [draw(st.sampled_from(ends[first])), draw(st.sampled_from(ends[second]))]
        edges.append(draw(st.sampled_from([pair, {"between": pair, "type": "t"}])))
    return {"id": draw(st.one_of(st.none(), st.text(max_size=3), st.integers(0, 9))), "nodes": nodes, "edges": edges}


@settings(max_examples=60, deadline=None)
@given(st.lists(graphs(), min_size=1, max_size=3))
def test_graphs_come_back_as_written(folder, given_graphs):
    first = read_graphs(spell(given_graphs, folder))
    write_graphs(folder / "again.jsonl", first)
    again = read_graphs(folder / "again.jsonl")
    assert again == first
    assert graph_labels(again) == [
        [-1 if node["label"] is None else node["label"] for node in graph["nodes"]] for graph in given_graphs
    ]


@settings(max_examples=60, deadline=None)
@given(st.lists(graphs(), min_size=1, max_size=3), st.lists(graphs(), min_size=1, max_size=3), st.booleans())
def test_rows_hold_the_named_numbers(folder, seen, new, bias):
    train, test = read_graphs(spell(seen, folder)), read_graphs(spell(new, folder))
    named = any(node.features for record in train for node in record.nodes)
    assume(named or bias)
    fitted = GraphFeatures(bias).fit(train)
    restored = GraphFeatures.from_state(json.loads(json.dumps(fitted.to_state())))
    names = fitted.nodes_.labels()
    for record, graph in zip(test, restored.transform(test), strict=True):
        for node, row in zip(record.nodes, dense(graph.features), strict=True):
            expected = {}
            for name, value in (node.features or {}).items():
                expected[f"{name}={value}" if isinstance(value, str) else name] = 1 if isinstance(value, str) else value
            assert row.tolist() == [1 if k == len(names) - bias else expected.get(x, 0) for k, x in enumerate(names)]


def test_rare_features_are_left_out(tmp_path):
    records = read_graphs(spell([{"nodes": [{"features": {"a": 1}}, {"features": {"a": 2, "b": 1}}]}], tmp_path))
    assert GraphFeatures(min_count=2).fit(records).nodes_.labels() == ["a", "bias"]


def test_predictions_are_graphs_again(tmp_path):
    records = read_graphs(spell([EXAMPLE], tmp_path))
    labels = [np.array(["verb", "noun", -1], dtype=object)]
    found = predicted_graphs(records, labels, [np.array([0, 1, 4])], [np.array([0.75, 1 / 3, np.nan])])
    write_graphs(tmp_path / "predicted.jsonl", found)
    written = json.loads((tmp_path / "predicted.jsonl").read_text())
    assert [node.get("label") for node in written["nodes"]] == ["verb", "noun", None]
    assert [node.get("confidence") for node in written["nodes"]] == [0.75, 0.333333, None]
    assert [node.get("state") for node in written["nodes"]] == [None, None, 4]
    assert written["edges"] == EXAMPLE["edges"]
    assert graph_labels(read_graphs(tmp_path / "predicted.jsonl")) == [["verb", "noun", -1]]
    assert records[0].nodes[0].label == "noun"


@pytest.mark.parametrize(
    ("line", "expected", "got"),
    [
        ("{", "a graph", "truncated"),
        ('{"nodes": [{"features": [NaN]}]}', "a graph", "[NaN]}]}', invalid character"),
        (
            '{"nodes": [{"features": {"a": 1e999}}]}',
            "a graph",
            "out of range at nodes[0].features",
        ),
        ("[]", "a graph", "[]"),
        ("{}", "a graph", "no field nodes"),
        ('{"nodes": []}', "at least one node", "none"),
        ('{"nodes": {}}', "array at nodes", "{}"),
        ('{"nodes": [{"lable": "a"}]}', "a graph", "the unknown field lable at nodes[0]"),
        ('{"nodes": [{"label": 1.5}]}', "int | str | null at", "1.5"),
        ('{"nodes": [{"label": true}]}', "int | str | null at", "true"),
        ('{"nodes": [{"label": ["a"]}]}', "int | str | null at", '["a"]'),
        ('{"nodes": [{"label": -2}]}', "a label of at least 0 of node 0,", "-2"),
        ('{"nodes": [{"label": 3}]}', "texts as labels, as in line 1", "integers (3 of node 0)"),
        ('{"nodes": [{"type": 3}]}', "str at nodes[0].type", "3"),
        ('{"nodes": [{"features": 3}]}', "object | array | null at", "3"),
        ('{"nodes": [{"features": {"b": 1, "a.c": null}}]}', "bool | float | str at", "null"),
        ('{"nodes": [{"features": ["a"]}]}', "float at nodes[0].features[0]", '"a"'),
        ('{"nodes": [{"features": [1, 2]}]}', "named values as features of", "a list of 2 (node 0)"),
        ('{"nodes": [{"name": "a"}, {"name": "a"}]}', "distinct names of nodes", "2 nodes 'a'"),
        ('{"nodes": [{}, {}], "edges": [[0, 2]]}', "a number from 0 to 1 as an end of", "2"),
        ('{"nodes": [{}, {}], "edges": [[0, -1]]}', "a number from 0 to 1 as an end of", "-1"),
        ('{"nodes": [{}, {}], "edges": [[0, "b"]]}', "the name of a node as an end of", "'b'"),
        ('{"nodes": [{}, {}], "edges": [{"between": [1, 1]}]}', "two different nodes as ends of", "(1, 1)"),
        ('{"nodes": [{}, {}], "edges": [[0, 1, 1]]}', "array of length 2 at edges[0]", "[0, 1, 1]"),
        ('{"nodes": [{}, {}], "edges": [{"type": "a"}]}', "a graph", "no field between at edges[0]"),
        ('{"nodes": [{"label": 0.5}], "nodes": []}', "int | str | null at", "another value"),
        ('{"nodes": [{"type": 3, "name": "' + "x" * 99 + '", "label": {}}], "x": 1}', "str at nodes[0].type", "3"),
        ('{"nodes": [{}, {"label": "-1"}]}', "a label of node 1, or null or the", "'-1'"),
        (
            '{"nodes": [{}, {}], "edges": [{"between": [0, 1], "features": [1]}]}',
            "named values as features of",
            "a list of 1 (edge 0)",
        ),
        ('{"nodes": [{"label": "\\ud800"}]}', "a graph", "truncated"),
    ],
)
def test_bad_lines(line, expected, got, tmp_path):
    path = spell([EXAMPLE, "", line], tmp_path)
    with raises(str(path), got=got, expected=expected, error=FormatError) as caught:
        read_graphs(path)
    assert caught.value.line == 3


def test_bad_files(tmp_path):
    with raises(expected='one graph per line, such as {"nodes": [{"label": "a"}]}', line=1, error=FormatError):
        read_graphs(spell(["", ""], tmp_path))
    (tmp_path / "latin.jsonl").write_bytes(b'{"nodes": [{"label": "\xe4"}]}')
    with raises(expected="UTF-8 text", line=1, error=FormatError):
        read_graphs(tmp_path / "latin.jsonl")
    ragged = [{"nodes": [{"features": [1, 2]}, {"features": [1]}]}]
    with raises(expected="a list of 2 as features of nodes, as in line 1", line=1, error=FormatError):
        read_graphs(spell(ragged, tmp_path))


def test_features_of_another_form(tmp_path):
    named = read_graphs(spell([EXAMPLE], tmp_path))
    listed = read_graphs(spell([{"id": 7, "nodes": [{}, {"features": [1]}]}], tmp_path))
    longer = read_graphs(spell([{"nodes": [{"features": [1, 2]}]}], tmp_path))
    for train, test, got, expected in (
        (named, listed, [1.0], "named values as features of node 1, as in training"),
        (listed, named, named[0].nodes[0].features, "a list of 1 as features of node 0, as in training"),
        (listed, longer, "a list of 2", "a list of 1 as features of node 0, as in training"),
    ):
        with raises("records[0]", got=got, expected=expected):
            GraphFeatures().fit(train).transform(test)
    edged = read_graphs(spell([{"nodes": [{}, {}], "edges": [{"between": [0, 1], "features": [1]}]}], tmp_path))
    with raises("records[0]", expected="no list as features of edge 0, as in training"):
        GraphFeatures().fit(listed).transform(edged)
    with raises("GraphFeatures", got="no features", expected="fitted before `transform`"):
        GraphFeatures().transform(named)


@pytest.mark.parametrize(
    "change",
    [{"version": 2}, {"format": "other"}, {"nodes": None}, {"more": 1}, {"nodes": {"names": ["a"], "width": 2}}],
)
def test_bad_states(change, tmp_path):
    state = GraphFeatures().fit([GraphRecord(nodes=[])]).to_state()
    nodes = change.get("nodes")
    with raises("state", expected="a state of format 'latentstruct.GraphFeatures 1'"):
        GraphFeatures.from_state({**state, **change, **({"nodes": {**nodes, "bias": True}} if nodes else {})})
