"""Documents, their files and the features of mention pairs."""

import gzip
import io
import os
import sys
import tarfile
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from error_fields import raises
from latentstruct.data.documents import Document, Mention
from latentstruct.features.mentions import MentionPairFeatures
from latentstruct.io import read_coreference, write_coreference
from latentstruct.metrics import cluster_scores
from latentstruct_papers.datasets import load_litbank

needs_data = pytest.mark.skipif(not os.environ.get("LATENTSTRUCT_DATA"), reason="LATENTSTRUCT_DATA is not set")

OFFICIAL = """#begin document (bc/cctv_0000); part 000
bc/cctv_0000   0   0    Mary     NNP   (TOP(S*  -  -  -  Speaker#1  *  *  (7|(3)
bc/cctv_0000   0   1    's       POS   *        -  -  -  Speaker#1  *  *  -
bc/cctv_0000   0   2    dog      NN    *        -  -  -  Speaker#1  *  *  7)

bc/cctv_0000   0   0    It       PRP   (TOP*    -  -  -  Speaker#1  *  *  (7)
#end document
#begin document (bc/cctv_0000); part 001
bc/cctv_0000   1   0    She      PRP   (TOP*)   -  -  -  Speaker#1  *  *  (3)
#end document
"""
OFFICIAL_DOCUMENTS = [
    Document(
        "bc/cctv_0000",
        [["Mary", "'s", "dog"], ["It"]],
        [Mention(0, 0, 3, "7"), Mention(0, 0, 1, "3"), Mention(1, 0, 1, "7")],
    ),
    Document("bc/cctv_0000", [["She"]], [Mention(0, 0, 1, "3")], 1),
]


def write(path, text):
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def same_clusters(documents, others):
    return cluster_scores([d.clusters for d in documents], [d.clusters for d in others]).mitre_loss == 0.0


def test_columns_are_read(tmp_path, monkeypatch):
    path = write(tmp_path / "a.v4_gold_conll", OFFICIAL)
    assert read_coreference(path) == OFFICIAL_DOCUMENTS
    assert read_coreference(tmp_path) == OFFICIAL_DOCUMENTS
    assert read_coreference(write(tmp_path / "a.conll.gz", gzip.compress(OFFICIAL.encode()))) == OFFICIAL_DOCUMENTS
    assert len(read_coreference(tmp_path)) == 4
    stream = io.TextIOWrapper(io.BytesIO(OFFICIAL.replace("\n", "\r\n").encode()))
    monkeypatch.setattr(sys, "stdin", stream)
    assert read_coreference("-") == OFFICIAL_DOCUMENTS


def columns(*lines, begin="#begin document (d); part 0", end="#end document"):
    return "\n".join([begin, *(f"d\t0\t0\tw\t_\t{line}" for line in lines), end, ""])


@pytest.mark.parametrize(
    ("text", "line", "got", "expected"),
    [
        (columns("(1", "-"), 2, "'(1'", "balanced brackets within a"),
        (columns("(1)", "1)"), 3, "'1)'", "balanced brackets within a"),
        (columns("(1)|(2)"), 2, "", "one cluster of the mention of"),
        (columns("(1|(2", "1)|2)"), 2, "", "one cluster of the mention of"),
        (columns("(1)|(1)"), 2, "", "one cluster of the mention of"),
        (columns("(1)|1"), 2, "'1'", "'(3', '3)' or '(3)' separated"),
        (columns("((1)"), 2, "'((1)'", "'(3', '3)' or '(3)' separated"),
        (columns("-", begin="# nothing"), 2, "", "a line such as '#begin"),
        (columns(begin="#begin document ()"), 1, "", "a line such as '#begin"),
        (columns(), 1, "", "words of document 'd'"),
        ("", 1, "", "a line such as '#begin"),
        ("#begin document (d); part 000\nd 0 0 w\n", 2, "", "at least 5 columns, with the"),
        ("#begin document (d); part 000\nd\t0\t0\t\t_\t-\n", 2, "", "a word in column 4"),
        (b"#begin document (\xff); part 000\n", 1, "", "UTF-8 text"),
    ],
)
def test_bad_columns(tmp_path, text, line, got, expected):
    with raises(file="bad.conll", line=line, got=got, expected=expected):
        read_coreference(write(tmp_path / "bad.conll", text))


SHORT = "# begin document talk\n0\tThe\t(e-1(e-2)\n1\tcat\te-1)\n2\tsat\t_\n\n3\tIt\t(e-1)\n"


def test_three_columns_with_joined_brackets(tmp_path):
    (document,) = read_coreference(write(tmp_path / "a.conll", SHORT))
    assert (document.name, document.sentences) == ("talk", [["The", "cat", "sat"], ["It"]])
    assert [mention[:4] for mention in document.mentions] == [(0, 0, 2, "e-1"), (0, 0, 1, "e-2"), (1, 0, 1, "e-1")]
    write_coreference(tmp_path / "b.conll", [document])
    (again,) = read_coreference(tmp_path / "b.conll")
    assert again.sentences == document.sentences
    assert same_clusters([document], [again])
    spaced = SHORT.replace("\t", "  ").replace("(e-1(e-2)", "(e-1|(e-2)")
    assert read_coreference(write(tmp_path / "c.conll", spaced)) == [document]


def test_bad_paths(tmp_path):
    with raises(expected="a readable file"):
        read_coreference(tmp_path / "absent.conll")
    with raises(got="0 and 0 of them", expected="either CoNLL-2012 files (.conll, _conll) or annotations (.ann)"):
        read_coreference(tmp_path)
    with raises("path", got="3", expected="a path without null characters"):
        read_coreference(3)
    for name in "dacbe":
        (tmp_path / "deep" / name).mkdir(parents=True)
        write(tmp_path / "deep" / name / "text.v4_gold_conll", OFFICIAL)
    named = ", ".join(str(tmp_path / "deep" / name) for name in "abc")
    with raises(str(tmp_path), got="0 and 0 of them", hint=named):
        read_coreference(tmp_path)
    write(tmp_path / "a.ann", "MENTION\tT0\t0\t0\t0\t0\tw\n")
    with raises(expected="a readable file"):
        read_coreference(tmp_path / "a.ann")
    write(tmp_path / "a.conll", OFFICIAL)
    with raises(got="1 and 1 of them", expected="either CoNLL-2012 files (.conll, _conll) or annotations (.ann)"):
        read_coreference(tmp_path)


STANDOFF_TEXT = "Mr. Smith met his dog .\n\nIt barked .\n"
STANDOFF = (
    "COREF\tT1\tsmith-0\n"
    "MENTION\tT0\t0\t0\t0\t1\tMr. Smith\tPER\tPROP\n"
    "MENTION\tT1\t0\t3\t0\t3\this\tPER\tPRON\n"
    "MENTION\tT2\t0\t3\t0\t4\this dog\n"
    "MENTION\tT3\t1\t0\t1\t0\tIt\tVEH\tPRON\n"
    "COREF\tT0\tsmith-0\n"
    "COP\tT3\tT2\n"
)


def test_standoff_is_read(tmp_path):
    write(tmp_path / "a.txt", STANDOFF_TEXT)
    (document,) = read_coreference(write(tmp_path / "a.ann", STANDOFF))
    assert document.name == "a"
    assert document.sentences == [["Mr.", "Smith", "met", "his", "dog", "."], ["It", "barked", "."]]
    assert [mention[:3] for mention in document.mentions] == [(0, 0, 2), (0, 3, 5), (0, 3, 4), (1, 0, 1)]
    assert [mention.entity_type for mention in document.mentions] == ["PER", None, "PER", "VEH"]
    assert document.clusters[0] == document.clusters[2] == "smith-0"
    assert len(set(document.clusters)) == 3
    assert read_coreference(tmp_path) == [document]


@pytest.mark.parametrize(
    ("change", "line", "got", "expected"),
    [
        (("COREF\tT0\tsmith-0", "COREF\tT1\tother"), 6, "", "one cluster of the mention"),
        (("COREF\tT0\tsmith-0", "COREF\tT9\tother"), 6, "'T9'", "the name of a MENTION line"),
        (("MENTION\tT3", "MENTION\tT2"), 5, "'T2'", "distinct names of mentions"),
        (("T3\t1\t0\t1\t0", "T3\t0\t3\t0\t4"), 5, "", "one cluster of the mention of"),
        (("T3\t1\t0\t1\t0", "T3\t0\t3\t1\t0"), 5, "", "a span within one sentence"),
        (("T3\t1\t0\t1\t0", "T3\t2\t0\t2\t0"), 5, "", "a span of words in the text"),
        (("T3\t1\t0\t1\t0", "T3\t1\t2\t1\t1"), 5, "", "a span of words in the text"),
        (("T3\t1\t0\t1\t0", "T3\t1\tx\t1\t0"), 5, "", "a span of four integers"),
        (("COP\tT3", "NOTE\tT3"), 7, "'NOTE T3 T2'", "MENTION with a name and a"),
        (("COREF\tT0\tsmith-0", "COREF\tT0"), 6, "'COREF T0'", "MENTION with a name and a"),
        ((STANDOFF, "\n"), 1, "", "at least one MENTION line"),
    ],
)
def test_bad_standoff(tmp_path, change, line, got, expected):
    write(tmp_path / "a.txt", STANDOFF_TEXT)
    with raises(file="a.ann", line=line, got=got, expected=expected):
        read_coreference(write(tmp_path / "a.ann", STANDOFF.replace(*change)))


@st.composite
def marked_documents(draw):
    """Documents with nested and crossing spans; crossing ones of one cluster share one word at most."""
    words = st.text("ab,(|)#-_é”", min_size=1, max_size=3)
    sentences = draw(st.lists(st.lists(words, min_size=1, max_size=6), min_size=1, max_size=3))
    mentions = {}
    for s, sentence in enumerate(sentences):
        bounds = st.tuples(st.integers(0, len(sentence) - 1), st.integers(1, len(sentence)))
        for a, b in draw(st.lists(bounds, max_size=6)):
            cluster = draw(st.sampled_from("xyz"))
            span = s, min(a, b - 1), max(a + 1, b)
            if not any(crossing(span, other) for other, of in mentions.items() if of == cluster):
                mentions.setdefault(span, cluster)
    ordered = sorted(mentions, key=lambda span: (span[0], span[1], -span[2]))
    name = draw(st.text("ab_/(). ;", min_size=1, max_size=5).filter(str.strip))
    return Document(name, sentences, [Mention(*span, mentions[span]) for span in ordered], draw(st.integers(0, 12)))


def crossing(span, other):
    (s, a, b), (t, c, d) = sorted([span, other])
    return s == t and a < c < b - 1 and d > b


@given(st.lists(marked_documents(), min_size=1, max_size=3))
@settings(deadline=None, max_examples=150)
def test_what_is_written_is_read(tmp_path_factory, documents):
    path = tmp_path_factory.mktemp("documents") / "out.conll"
    write_coreference(path, documents)
    back = read_coreference(path)
    for document, other in zip(documents, back, strict=True):
        assert (other.name, other.part, other.sentences) == (document.name, document.part, document.sentences)
        assert [m[:3] for m in other.mentions] == [m[:3] for m in document.mentions]
        if document.mentions:
            assert same_clusters([document], [other])


CELL = st.text("ab*(#_", min_size=1, max_size=3)


@st.composite
def column_files(draw):
    """The text of a CoNLL-2012 file with one document: three columns, the word, others, and clusters."""
    separator = draw(st.sampled_from(["\t", " ", "   "]))
    cell = st.one_of(CELL, st.just("a b"), st.just("")) if separator == "\t" else CELL
    n_others = draw(st.integers(0, 3))
    lines = ["#begin document (d); part 002"]
    for _ in range(draw(st.integers(1, 3))):
        for cluster in draw(st.lists(st.sampled_from(["-", "(0)"]), min_size=1, max_size=4)):
            others = draw(st.lists(cell, min_size=n_others, max_size=n_others))
            before = [draw(CELL.map("d".__add__)), draw(CELL), draw(CELL)]
            lines.append(separator.join([*before, draw(CELL), *others, cluster]))
        lines.append("")
    return "\n".join([*lines, "#end document", ""])


@given(column_files())
@settings(deadline=None, max_examples=150)
def test_other_columns_are_written_as_they_were(tmp_path_factory, text):
    folder = tmp_path_factory.mktemp("columns")
    documents = read_coreference(write(folder / "in.conll", text))
    write_coreference(folder / "out.conll", documents)
    assert (folder / "out.conll").read_bytes().decode() == text
    write_coreference(folder / "new.conll", documents, [["x"] * len(documents[0].mentions)])
    assert (folder / "new.conll").read_bytes().decode() == text


def test_only_the_last_of_official_columns_changes(tmp_path):
    documents = read_coreference(write(tmp_path / "a.conll", OFFICIAL))
    write_coreference(tmp_path / "b.conll", documents, [["x", "y", "y"], ["z"]])
    lines = [
        [line.rpartition(" ") for line in path.read_text().splitlines() if line and not line.startswith("#")]
        for path in (tmp_path / "a.conll", tmp_path / "b.conll")
    ]
    assert [line[0] for line in lines[0]] == [line[0] for line in lines[1]]
    assert [line[2] for line in lines[1]] == ["(0|(1)", "-", "0)", "(1)", "(0)"]


def test_other_columns_that_do_not_fit(tmp_path):
    (document,) = read_coreference(write(tmp_path / "a.conll", "#begin document (d)\nd 0 0 w NN -\n"))
    assert document.others == ([["d 0 0 "]], [[" NN "]])
    assert document == replace(document, others=None)
    with raises("others", got="other lengths in 'd'", expected="a text before and one after each word, or None"):
        replace(document, sentences=[["w", "v"]])
    for sentences in ([["New York"]], [["\u3000"]]):
        with raises("documents"):
            write_coreference(tmp_path / "out", [replace(document, sentences=sentences)])
    for others in (([["d 0\n0 "]], [[" NN "]]), ([["d 0 "]], [[" NN "]]), ([["d 0 0 "]], [[" NN"]]), ([[""]], [[""]])):
        with raises("documents", expected="words in the fourth of the CoNLL-2012 columns"):
            write_coreference(tmp_path / "out", [replace(document, others=others)])
    write_coreference(tmp_path / "out", [replace(document, sentences=[["New"]])])
    assert (tmp_path / "out").read_text().splitlines()[1] == "d 0 0 New NN -"


def test_lines_that_share_their_columns_share_the_memory(tmp_path):
    text = "#begin document (d)\n" + "d\t0\t0\tw\tNN\t*\t-\n\n" * 100
    (document,) = read_coreference(write(tmp_path / "a.conll", text))
    for side in document.others:
        assert len(side) == 100
        assert len({id(row[0]) for row in side}) == 1


def test_predicted_clusters_are_written(tmp_path, capsys):
    path = tmp_path / "out.conll.gz"
    write_coreference(path, OFFICIAL_DOCUMENTS, [np.array([4, 4, 2]), ["a"]])
    assert [document.clusters for document in read_coreference(path)] == [["0", "0", "1"], ["0"]]
    write_coreference("-", OFFICIAL_DOCUMENTS[1:])
    assert capsys.readouterr().out.splitlines()[1].split("\t")[-1] == "(0)"


def test_what_cannot_be_written(tmp_path):
    words = [list("abcde")]
    crossed = Document("d", words, [Mention(0, 0, 3, "x"), Mention(0, 1, 5, "x")])
    with raises("documents", expected="free of crossing mentions of one cluster"):
        write_coreference(tmp_path / "out", [crossed])
    write_coreference(tmp_path / "out", [crossed], [["x", "y"]])
    with raises("clusters", got="[1] labels", expected="[2] labels, one per mention"):
        write_coreference(tmp_path / "out", [crossed], [["x"]])
    with raises("documents", got="'a\\tb'", expected="documents whose names and words have no tabs and line breaks"):
        write_coreference(tmp_path / "out", [Document("d", [["a\tb"]], [])])


def test_bad_documents():
    for span in ((1, 0, 1), (0, 0, 3), (0, 1, 1), (0, -1, 1), (-1, 0, 1)):
        with raises("mentions", expected="spans of at least one word in sentences from 0 to 0"):
            Document("d", [["a", "b"]], [Mention(*span, "x")])
    with raises("mentions", got="a span twice in 'd'", expected="distinct spans"):
        Document("d", [["a", "b"]], [Mention(0, 0, 1, "x"), Mention(0, 0, 1, "y")])
    with raises("documents[0]", got="no mentions", expected="a Document with at least one mention"):
        MentionPairFeatures().transform([Document("d", [["a"]], [])])
    with raises("documents[0]", got="'d'", expected="a Document"):
        MentionPairFeatures().transform(["d"])


def features_of(text, *spans, types=None, **parameters):
    """Names of the features of each pair of spans of one text of sentences."""
    sentences = [sentence.split() for sentence in text.split(" / ")]
    types = types or [None] * len(spans)
    mentions = [Mention(*span, "x", kind) for span, kind in zip(spans, types, strict=True)]
    extractor = MentionPairFeatures(**parameters)
    names = np.array(extractor.feature_names)
    (matrix,) = extractor.transform([Document("d", sentences, mentions)])
    pairs = combinations(range(len(spans)), 2)
    return {pair: set(names[matrix[[p]].indices]) for p, pair in enumerate(pairs)}


def test_names_and_titles():
    found = features_of("Mr. Smith met Mrs. Smith / Smith left", (0, 0, 2), (0, 3, 5), (1, 0, 1))
    assert "agreement=full-full,different,same" in found[0, 1]
    assert "match=head and contained,name,name" in found[0, 2]
    assert "sentences=1,full-full" in found[0, 2]
    assert "mentions=1,full-full" in found[0, 1]


def test_heads_and_articles():
    found = features_of("the king of France saw a king / the king , a man", (0, 0, 4), (0, 5, 7), (1, 0, 2), (1, 3, 5))
    assert "match=head and contained,noun,noun" in found[0, 1]
    assert "article=indefinite,same head" in found[0, 1]
    assert "article=definite,same head" in found[0, 2]
    assert "match=head and contained,noun,noun" in found[1, 2]
    assert "apposition" in found[2, 3]
    assert "match=nothing,noun,noun" in found[2, 3]


def test_pronouns():
    found = features_of(
        "Jane saw her father when he hurt himself", (0, 0, 1), (0, 2, 3), (0, 2, 4), (0, 5, 6), (0, 7, 8)
    )
    assert "pronoun after=she,unknown,singular,name" in found[0, 1]
    assert "pronoun after=he,male,singular,noun" in found[2, 3]
    assert "pronouns=she,he,outside" in found[1, 3]
    assert "agreement=pronoun-pronoun,different,same" in found[1, 3]
    assert "nearest full=he" in found[2, 3]
    assert "reflexive=nearest" in found[3, 4]
    assert "nested=pronoun" not in found[0, 1]
    nested = features_of("her father slept", (0, 0, 2), (0, 0, 1))
    assert "nested=pronoun" in nested[0, 1]


def test_speech():
    found = features_of("“ I know you ” said he / “ I do ”", (0, 1, 2), (0, 3, 4), (0, 6, 7), (1, 1, 2))
    assert "pronouns=I,you,inside" in found[0, 1]
    assert "speeches=I,you,one" in found[0, 1]
    assert "speeches=I,I,two" in found[0, 3]
    assert "pronouns=I,he,first inside" in found[0, 2]
    assert "same pronoun" in found[0, 3]


def test_types_are_used_only_if_asked():
    arguments = ("Rome called it", (0, 0, 1), (0, 2, 3))
    given_types = features_of(*arguments, types=["GPE", "GPE"])[0, 1]
    assert {"type=GPE,full-pronoun", "pronoun of type=it,GPE"} <= given_types
    without = features_of(*arguments)[0, 1]
    assert not any("type" in name for name in without)
    assert features_of(*arguments, types=["GPE", "PER"], entity_types=False)[0, 1] == without
    assert "type=different,full-pronoun" in features_of(*arguments, types=["GPE", "X"])[0, 1]


@given(marked_documents())
@settings(deadline=None, max_examples=60)
def test_features_are_canonical_and_blind_to_clusters(document):
    if not document.mentions:
        document = Document("d", [["a"]], [Mention(0, 0, 1, "x")])
    extractor = MentionPairFeatures()
    (matrix,) = extractor.transform([document])
    size = len(document.mentions)
    assert matrix.shape == (size * (size - 1) // 2, len(extractor.feature_names))
    assert (matrix.data == 1).all()
    copy = matrix.copy()
    copy.has_canonical_format = False
    copy.sum_duplicates()
    assert copy.nnz == matrix.nnz
    np.testing.assert_array_equal(copy.indices, matrix.indices)
    blind = Document(document.name, document.sentences, [m._replace(cluster="q") for m in document.mentions])
    assert (extractor.transform([blind])[0] != matrix).nnz == 0


def test_feature_names_and_state():
    extractor = MentionPairFeatures(entity_types=False)
    assert len(set(extractor.feature_names)) == len(extractor.feature_names)
    assert extractor.get_feature_names_out().tolist() == extractor.feature_names
    assert extractor.fit() is extractor
    assert MentionPairFeatures.from_state(extractor.to_state()).entity_types is False
    for damage in ({"n_features": 3}, {"entity_types": None}):
        with raises("state", expected="a state of format 'latentstruct.MentionPairFeatures 1', returned by `to_state`"):
            MentionPairFeatures.from_state(extractor.to_state() | damage)


def packed(files):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, text in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(text)
            archive.addfile(info, io.BytesIO(text.encode()))
    return buffer.getvalue()


def put(home, data):
    folder = home / "litbank_coref"
    folder.mkdir(exist_ok=True)
    (folder / "litbank_coref_conll_tsv.tar.gz").write_bytes(data)
    return home


def test_litbank_archive(tmp_path):
    files = {"coref/tsv/b.txt": STANDOFF_TEXT, "coref/tsv/b.ann": STANDOFF, "../coref/tsv/a.ann": "MENTION"}
    (document,) = load_litbank(put(tmp_path, packed(files)))
    assert (document.name, len(document.mentions)) == ("b", 4)
    for broken, file, line, got, expected in (
        (
            packed({"coref/tsv/b.ann": STANDOFF}),
            "litbank_coref_conll_tsv.tar.gz",
            None,
            "",
            "a file coref/tsv/b.txt for",
        ),
        (packed({"other": ""}), "litbank_coref_conll_tsv.tar.gz", None, "", "files coref/tsv/*.ann"),
        (packed(files)[:-40], "litbank_coref_conll_tsv.tar.gz", None, "", "a complete gzip-compressed"),
        (b"no archive", "litbank_coref_conll_tsv.tar.gz", None, "", "a complete gzip-compressed"),
        (packed(files | {"coref/tsv/b.ann": "MENTION"}), "b.ann", 1, "'MENTION'", "MENTION with a name and a"),
    ):
        with raises(file=file, line=line, got=got, expected=expected):
            load_litbank(put(tmp_path, broken))
    with raises(got="no such file", expected="a file of the data set"):
        load_litbank(tmp_path / "litbank_coref")


@pytest.mark.data
@needs_data
def test_litbank():
    documents = load_litbank()
    assert len(documents) == 100
    assert sum(len(document.mentions) for document in documents) == 29103
    assert sum(len(words) for document in documents for words in document.sentences) == 210532
    assert sum(len(set(document.clusters)) for document in documents) == 7927
    assert {mention.entity_type for document in documents for mention in document.mentions} == {
        "PER",
        "FAC",
        "LOC",
        "GPE",
        "VEH",
        "ORG",
    }
    (matrix,) = MentionPairFeatures().transform(documents[:1])
    size = len(documents[0].mentions)
    assert matrix.shape[0] == size * (size - 1) // 2
