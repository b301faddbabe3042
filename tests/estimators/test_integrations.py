"""Documents of spaCy and rows of data sets, with objects that have their interface."""

from types import SimpleNamespace

import numpy as np
import pytest

from error_fields import raises
from latentstruct import CRF, Chain, FeaturePipeline, WindowFeatures
from latentstruct.integrations.datasets import tagged_sentences
from latentstruct.integrations.spacy import SpacyTagger, tagged_docs


class Doc:
    """As much of spacy.tokens.Doc as is used."""

    def __init__(self, words, entities=None, tags=None, starts=()):
        tags = tags or [""] * len(words)
        self.tokens = [
            SimpleNamespace(text=word, i=i, is_space=word.isspace(), ent_iob_="", ent_type_="", tag_=tag, pos_=tag)
            for i, (word, tag) in enumerate(zip(words, tags, strict=True))
        ]
        self.starts, self.ents = starts, []
        for token, entity in zip(self.tokens, entities or [], strict=bool(entities)):
            token.ent_iob_, _, token.ent_type_ = entity.partition("-")

    def __iter__(self):
        return iter(self.tokens)

    def __getitem__(self, span):
        return SimpleNamespace(words=[token.text for token in self.tokens[span]], label_="")

    def has_annotation(self, name):
        return name == "SENT_START" and bool(self.starts)

    @property
    def sents(self):
        return [self.tokens[a:b] for a, b in zip(self.starts, [*self.starts[1:], None], strict=True)]

    def set_ents(self, entities):
        self.ents = [(entity.words, entity.label_) for entity in entities]


WORDS = ["Otto", "Berg", "  ", "left", "Oslo"]
ENTITIES = ["B-PER", "I-PER", "O", "O", "B-LOC"]


def test_labels_of_documents():
    docs = [Doc(WORDS, ENTITIES), Doc([" "]), Doc(["x", "y"], ["B-LOC", ""])]
    kept = [["Otto", "Berg", "left", "Oslo"], ["x", "y"]]
    assert tagged_docs(docs) == (kept, [["B-PER", "I-PER", "O", "B-LOC"], ["B-LOC", -1]])
    tagged = [Doc(["a", "b"], tags=["DET", ""])]
    assert tagged_docs(tagged, "tag") == tagged_docs(tagged, "pos") == ([["a", "b"]], [["DET", -1]])
    with raises("attribute"):
        tagged_docs(docs, "dep")


def test_a_component_annotates_documents():
    model = FeaturePipeline(WindowFeatures(), CRF(Chain())).fit(*tagged_docs([Doc(WORDS, ENTITIES)] * 4))
    tagger = SpacyTagger(model)
    assert tagger(Doc(WORDS)).ents == [(["Otto", "Berg"], "PER"), (["Oslo"], "LOC")]
    docs = [Doc(WORDS), Doc([]), Doc([*WORDS, *WORDS], starts=(0, 5))]
    found = [doc.ents for doc in tagger.pipe(iter(docs), batch_size=2)]
    assert [len(ents) for ents in found] == [2, 0, 4]
    assert found[2][2:] == found[0]
    tags = FeaturePipeline(WindowFeatures(), CRF(Chain())).fit([["a", "dog"]] * 3, [["DET", "NOUN"]] * 3)
    doc = SpacyTagger(tags, "tag")(Doc(["a", "dog"]))
    assert [token.tag_ for token in doc] == ["DET", "NOUN"]
    assert [token.pos_ for token in SpacyTagger(tags, "pos")(Doc(["a", "dog"]))] == ["DET", "NOUN"]
    with raises("attribute"):
        SpacyTagger(tags, "dep")


def test_spacy_itself(tmp_path):
    spacy = pytest.importorskip("spacy")
    from latentstruct.integrations.spacy import register

    nlp = spacy.blank("en")
    X, y = [["Mara", "left", "Oslo", "."]] * 4, [["B-PER", "O", "B-LOC", "O"]] * 4
    FeaturePipeline(WindowFeatures(), CRF(Chain())).fit(X, y).save(tmp_path / "tagger")
    register()
    nlp.add_pipe("latentstruct", config={"model": str(tmp_path / "tagger")})
    doc = nlp("Mara left Oslo.")
    assert [(entity.text, entity.label_) for entity in doc.ents] == [("Mara", "PER"), ("Oslo", "LOC")]
    assert tagged_docs([doc]) == (X[:1], y[:1])


class Rows(list):
    def __init__(self, rows, feature):
        super().__init__(rows)
        self.features = {"ner_tags": feature}


def test_rows_of_data_sets():
    rows = [
        {"tokens": ["Mara", "left"], "ner_tags": [1, 0], "id": "0"},
        {"tokens": ["x"], "ner_tags": [-100], "id": "1"},
    ]
    X = [["Mara", "left"], ["x"]]
    assert tagged_sentences(rows) == (X, [[1, 0], [-100]])
    assert tagged_sentences(rows, names=["O", "B-PER"]) == (X, [["B-PER", "O"], [-100]])
    names = SimpleNamespace(names=["O", "B-PER"])
    for feature in (names, SimpleNamespace(feature=names)):
        assert tagged_sentences(Rows(rows, feature))[1] == [["B-PER", "O"], [-100]]
    assert tagged_sentences(Rows(rows, SimpleNamespace(feature=SimpleNamespace(dtype="string"))))[1] == [[1, 0], [-100]]
    arrays = [{"tokens": np.array(row["tokens"]), "ner_tags": np.array(row["ner_tags"])} for row in rows]
    assert tagged_sentences(Rows(arrays, names)) == (X, [["B-PER", "O"], [-100]])
    for changed, arguments in (
        ({"train": rows}, {}),
        ([SimpleNamespace(tokens=["a"], ner_tags=[0])], {}),
        ([{"words": ["a"]}], {}),
        ([{"tokens": ["a"], "ner_tags": []}], {}),
        ([{"tokens": ["a"], "ner_tags": [2]}], {"names": ["O", "B-PER"]}),
    ):
        with raises("rows[0]"):
            tagged_sentences(changed, **arguments)
