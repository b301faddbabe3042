"""Readers of text: columns, sequences, tables, factor graphs, trees, JSON lines, TOML."""

import gzip
from functools import cache
from pathlib import Path
from typing import Any

from fuzz.registry import Reader, through_file
from latentstruct import io as formats
from latentstruct.cli import config
from latentstruct.cli.kinds.chain.files import ChainRecord, read_rules
from latentstruct.data.images import read_label_names
from latentstruct.io.fasta import read_labeled_fasta, read_sites
from latentstruct_papers.datasets import load_letor_mq2008

CONLL = b"Rockwell NNP B-NP\nsaid VBD B-VP\nthe DT B-NP\nagreement NN I-NP\n. . O\n\nIt PRP B-NP\nrose VBD B-VP\n"
TABBED = b"word\ttag\tlabel\nNew York\tNNP\tB\n\n-DOCSTART- -X- O\nin\tIN\t?\n"
LABEL_SETS = b"Ann B-PER|B-ORG\nLee I-PER\n\nBay B-LOC:0.7|B-PER:3e-1\nleft ?\n"
RULES = b"O I-PER\n<s> I-PER\n\nB-PER </s>\n"
CONLLU = (
    b"# sent_id = 1\n1-2\tal\t_\t_\t_\t_\t_\t_\t_\t_\n1\ta\ta\tADP\t_\t_\t0\troot\t_\t_\n"
    b"2\tel\tel\tDET\t_\t_\t1\tdet\t_\tA=b\n2.1\tx\t_\t_\t_\t_\t_\t_\t1:dep\t_\n\n"
)
SPANS = (
    b'{"tokens": ["Anna", "left"], "spans": [[0, 1, "PER"]]}\n'
    b'{"text": "Anna left", "label": [[0, 4, "PER"]], "id": 3}\n'
    b'{"text": "a b", "tokens": [{"start": 0, "end": 1}, {"start": 2, "end": 3}], "spans": [{"start": 2, "end": 3}]}\n'
    b'{"text": "a b", "entities": [{"start_offset": 0, "end_offset": 3, "label": "X"}], "meta": {"a": [1]}}\n'
)
FASTA = b">one label=1 a site\nACGTACGTNN\nacgt\n>two label=-1\nTTTTGGGG\n\n>three label=+1\nCCCC\n"
PIR = b">P1;1abc\nstructure:1abc\nAC-DE.FG*\n>P1;2xyz\nremark\nACHDEkFG*\n"
GAPPED = b">a\nACDE-FG\n>b\nAC-EKFG\n>c\nMKV\n>d\nMK.\n"
SITES = (
    b"#sequence\tstart\tend\tmotif\tscore\tstrand\tsite\none\t3\t9\tm\t1.25\t+\tACGTAC\ntwo\t0\t6\tm\t-0.5\t-\tTTTTGG\n"
)
SVMLIGHT = b"1 1:0.5 3:-2e-3 7:1 # remark\n-1 2:1.0\n+1\n2.5 1:3\nlabel 4:0.25\n"
QUERIES = b"2 qid:10 1:0.03 2:1 46:0.5 #docid = GX1\n0 qid:10 3:0.1\n1 qid:11 1:0.7 # x\n0 qid:11 2:0.2\n"
TABLE = b'age,income,"the class"\n1.5,2,yes\n-3e2,0.1,"no"\n4,5,yes\n'
TABS = b"a\tb\tlabel\n1\t2\t0\n3\t4\t1\n"
GROUPS = b"group,cluster,age,height\nmonday,1,30,180\nmonday,1,31,181\ntuesday,a,7,120\n"
UAI = b"MARKOV\n3\n2 2 3\n2\n2 0 1\n2 1 2\n\n4\n 4.000 2.400 1.000 0.000\n\n6\n 2.2 3.2 5.6 5.9 6.1 1.2\n# end\n"
BAYES = b"BAYES\n2\n2 2\n2\n1 0\n2 0 1\n2\n0.4 0.6\n4\n0.1 0.9 1e-400 1\n"
LOGS = b"LOGMARKOV\n1\n3\n1\n1 0\n3\n-1.5 0 -2\n"
TREES = b"(S (NP (DT the) (NN dog)) (VP (VB barks)))\n( (S\n  (NP-SBJ (-NONE- *T*) (NNS dogs))\n  (VP (VBP bark))))\n"
SENTENCES = b"the dog barks\ndogs/NNS bark/VBP\n-LRB- x -RRB-\n"
GRAPHS = (
    b'{"id": "s1", "nodes": [{"name": "cat", "type": "word", "features": {"length": 3, "suffix": "at"}, "label": "n"}, '
    b'{"name": "sat", "type": "word", "features": {"length": 3, "past": true}, "label": null}, {"type": "topic"}], '
    b'"edges": [{"between": ["cat", "sat"], "type": "next", "features": {"distance": 1}}, [0, 2], [1, 2]]}\n'
    b'{"nodes": [{"label": "v"}, {"features": {"x": 0.5}}], "edges": [[0, 1]]}\n'
)
LISTS = b'{"nodes": [{"features": [1, 2.5], "label": 3}, {"features": [0, -1e3], "label": 1}], "edges": [[1, 0]]}\n'
DIVERSITY = (
    b'{"query": "392", "documents": [{"id": "d1", "text": "Robots in space", "title": "Robots", "subtopics": ["a"]}, '
    b'{"id": "d2", "words": ["robot", "surgery"], "subtopics": ["b", 3]}]}\n{"documents": [{"text": "x"}]}\n'
)
PROGRAMS = (
    b'{"variables": {"a": {"features": {"f": 1.5}, "value": 1}, "b": {"upper": 3, "integer": false}}, '
    b'"constraints": [{"terms": {"a": 1, "b": -1}, "lower": 0, "name": "c"}]}\n'
)
MEME = (
    b"MEME version 4\n\nALPHABET= ACGT\n\nstrands: + -\n\nBackground letter frequencies\nA 0.3 C 0.2 G 0.2 T 0.3\n\n"
    b"MOTIF m1\nletter-probability matrix: alength= 4 w= 2 nsites= 20 E= 0\n0.1 0.2 0.3 0.4\n0.25 0.25 0.25 0.25\n"
)
MATRIX = b"# remark\n   A  C  D\nA  4 -1 -2\nC -1  5  0\nD -2  0  6.5\n"
COREFERENCE = (
    b"#begin document (bc/cctv/00); part 000\nbc 0 0 The DT (0\nbc 0 1 dog NN 0)|(1)\nbc 0 2 ran VB -\n\n"
    b"bc\t0\t0\tIt\tPRP\t(0)\n\n#end document\n#begin document (x); part 1\nx 1 0 He _ _ (3)\n#end document\n"
)
LITBANK = (
    b"MENTION\tT1\t0\t0\t0\t1\tthe dog\tPER\tPROP\nMENTION\tT2\t1\t0\t1\t0\tIt\tPER\tPRON\n"
    b"COREF\tT1\tc-1\nCOREF\tT2\tc-1\nAPPOS\tT1\tT2\n"
)
BOX_TABLE = b"file,label,x0,y0,x1,y1\na.png,cat,1,2,30,40\na.png,cat,5,5,9,9\nb.jpg,dog,,,,\n"
COCO = (
    b'{"images": [{"id": 1, "file_name": "a.png", "width": 40, "height": 50}, {"id": 2, "file_name": "b.png"}], '
    b'"categories": [{"id": 1, "name": "cat"}], "annotations": [{"image_id": 1, "category_id": 1, "bbox": '
    b'[1, 2, 3.5, 4], "iscrowd": 0, "id": 1}]}'
)
VOC = (
    b'<?xml version="1.0" encoding="utf-8"?>\n<annotation><filename>a.jpg</filename><size><width>40</width>'
    b"<height>50</height><depth>3</depth></size><object><name>cat</name><bndbox><xmin>1</xmin><ymin>2</ymin>"
    b"<xmax>30</xmax><ymax>40</ymax></bndbox></object></annotation>\n"
)
TOML = (
    b"# options\nmax-iter = 5\nC = 0.1\nshape = false\n\n[train]\nseed = 3\n[train.chain]\nwindow = 1\noutput = 'x'\n"
)
NAMES = b"3 tree\n#ff0000 car\n0\tvoid space\n"
EVIDENCE, SAMPLES = b"2 0 1 2 2\n", b"2\n1 0 1\n2 1 0 2 1\n"
SOLUTIONS = (b"MAR\n2 2 0.25 0.75 2 0.5 0.5\n", b"PR\n-3.25\n", b"MPE\n1\n3 0 1 2\n", b"MMAP\n-BEGIN-\n2 0 1 2 0\n")
CARDS = (2, 2, 3)


@cache
def command() -> Any:
    """Return all commands."""
    from typer.main import get_command

    from latentstruct.cli import app

    return get_command(app)


def read_options(path: Path) -> Any:
    """Read options for one command."""
    return config.read_options(path, ("train", "chain"), command())


def read_label_sets(path: Path) -> Any:
    """Read sentences with sets of labels and soft labels."""
    sentences = formats.read_conll(path)
    record = ChainRecord(
        features={}, label_column=sentences.n_columns - 1, n_columns=sentences.n_columns, columns=[0], unknown="?",
        label_sets=True, n_examples=len(sentences),
    )  # fmt: skip
    return record.labels_of(sentences, str(path))


def read_and_write_conllu(path: Path) -> Any:
    """Read words, and write them with other labels."""
    sentences = formats.read_conllu(path)
    formats.write_conllu(path.with_name("out.conllu"), sentences, 3, sentences.column(3))
    return formats.read_conllu(path.with_name("out.conllu"))


def read_and_write_spans(path: Path) -> Any:
    """Read spans, and write them again."""
    texts = formats.read_spans(path)
    formats.write_spans(path.with_name("out.jsonl"), texts, [one.spans or [] for one in texts])
    return formats.read_spans(path.with_name("out.jsonl"))


def read_standoff(path: Path) -> Any:
    """Read annotations of a text that is whole."""
    path.with_suffix(".txt").write_text("the dog ran\nIt barked .\n")
    return formats.read_coreference(path)


def read_and_use_graphs(path: Path) -> Any:
    """Read graphs and turn them into what a task takes."""
    records = formats.read_graphs(path)
    return formats.GraphFeatures().fit(records).transform(records)


def read_and_use_model(path: Path) -> Any:
    """Read a factor graph and lay it out."""
    return formats.read_uai(path).structure()


def read_letor(path: Path) -> Any:
    """Read queries as the data set has them."""
    return load_letor_mq2008(1, "test", path.parents[1])


def _packed(*files: bytes) -> list[bytes]:
    return [gzip.compress(file, mtime=0) for file in files]


READERS = (
    Reader("conll", lambda: [CONLL, TABBED], through_file("a.txt", formats.read_conll), (b"-DOCSTART-", b"\n\n")),
    Reader("conll.gz", lambda: _packed(CONLL, TABBED), through_file("a.txt.gz", formats.read_conll)),
    Reader("conllu", lambda: [CONLLU], through_file("a.conllu", read_and_write_conllu), (b"1-2\t", b"1.1\t", b"\n#")),
    Reader(
        "spans", lambda: [SPANS], through_file("a.jsonl", read_and_write_spans), (b'"text"', b'"label"', b"null", b"99")
    ),
    Reader("label_sets", lambda: [LABEL_SETS], through_file("a.txt", read_label_sets), (b"|", b":", b":nan", b"|?")),
    Reader("rules", lambda: [RULES], through_file("a.txt", lambda path: read_rules(str(path))), (b"<s>", b" ")),
    Reader("fasta", lambda: [FASTA], through_file("a.fa", read_labeled_fasta), (b">", b"label=1", b"\n>x\n")),
    Reader("sites", lambda: [SITES], through_file("a.bed", read_sites), (b"\t+\t",)),
    Reader("alignments", lambda: [GAPPED, PIR], through_file("a.fa", formats.read_alignments), (b">P1;x", b"*", b"-")),
    Reader("pairs", lambda: [GAPPED, PIR], through_file("a.fa", formats.read_sequence_pairs), (b">P1;x", b"*", b"-")),
    Reader("tracks", lambda: [GAPPED, PIR], through_file("a.fa", formats.read_tracks), (b">",)),
    Reader("svmlight", lambda: [SVMLIGHT], through_file("a.svm", formats.read_svmlight), (b" 5:1", b"qid:1", b"#")),
    Reader(
        "svmlight-0",
        lambda: [SVMLIGHT.replace(b"1:", b"0:")],
        through_file("a.svm", lambda path: formats.read_svmlight(path, zero_based=True)),
        (b" 0:1", b"#"),
    ),
    Reader("queries", lambda: [QUERIES], through_file("a.txt", formats.read_queries), (b" qid:3 ", b" 5:1", b"#")),
    Reader("letor", lambda: _packed(QUERIES), through_file("letor_mq2008/S5.txt.gz", read_letor)),
    Reader("csv", lambda: [TABLE], through_file("a.csv", formats.read_csv), (b'"', b'""', b",", b"\x1c")),
    Reader("tsv", lambda: [TABS], through_file("a.tsv", formats.read_csv), (b'"', b"\t")),
    Reader("groups", lambda: [GROUPS], through_file("a.csv", formats.read_groups), (b"group", b"cluster", b'"')),
    Reader(
        "uai", lambda: [UAI, BAYES, LOGS], through_file("a.uai", read_and_use_model), (b"MARKOV", b"LOG", b" 2 0 1 ")
    ),
    Reader(
        "uai-log10",
        lambda: [LOGS[3:]],
        through_file("a.uai", lambda path: formats.read_uai(path, scale="log10")),
        (b"1e308", b"-1e308"),
    ),
    Reader(
        "evidence",
        lambda: [EVIDENCE, SAMPLES],
        through_file("a.evid", lambda path: formats.read_uai_evidence(path, CARDS)),
        (b" 0 1 ", b"\n"),
    ),
    Reader(
        "uai-query",
        lambda: [b"2 0 2\n"],
        through_file("a.query", lambda path: formats.read_uai_query(path, 3)),
        (b" 1 ",),
    ),
    Reader(
        "solutions",
        lambda: SOLUTIONS,
        through_file("a.sol", formats.read_uai_solutions),
        (b"PR", b"MAR", b"MPE", b"MMAP", b"-BEGIN-"),
    ),
    Reader("brackets", lambda: [TREES], through_file("a.mrg", formats.read_trees), (b"(", b")", b"(NP (NN x))", b"()")),
    Reader(
        "sentences", lambda: [SENTENCES], through_file("a.txt", formats.read_sentences), (b"(", b"/NN", b"(S (N x))")
    ),
    Reader(
        "graphs", lambda: [GRAPHS, LISTS], through_file("a.jsonl", read_and_use_graphs), (b"[[", b'{"nodes": [', b"]]")
    ),
    Reader(
        "diversity", lambda: [DIVERSITY], through_file("a.jsonl", formats.read_diversity), (b"[[", b'"documents": [')
    ),
    Reader(
        "programs",
        lambda: [PROGRAMS],
        through_file("a.jsonl", formats.read_programs),
        (b'"terms": {', b"1e999"),
    ),
    Reader("meme", lambda: [MEME], through_file("a.meme", formats.read_meme), (b"MOTIF x\n", b"w= ", b"alength= 4")),
    Reader("matrix", lambda: [MATRIX], through_file("a.mat", formats.read_ncbi_matrix), (b" A ", b"#", b"\nC 1 2 3")),
    Reader(
        "coreference",
        lambda: [COREFERENCE],
        through_file("a.conll", formats.read_coreference),
        (b"#begin document ", b"; part 0", b"(0", b"0)", b"|", b"#end document\n"),
    ),
    Reader("litbank", lambda: [LITBANK], through_file("a.ann", read_standoff), (b"MENTION\t", b"COREF\t", b"COP\t")),
    Reader("box-table", lambda: [BOX_TABLE], through_file("a.csv", formats.read_annotations), (b'"', b",,,,", b"x0")),
    Reader("coco", lambda: [COCO], through_file("a.json", formats.read_annotations), (b'"bbox": ', b"[[[", b"null")),
    Reader(
        "voc",
        lambda: [VOC],
        through_file("a.xml", formats.read_annotations),
        (b"<object>", b"</object>", b"<!DOCTYPE a [<!ENTITY b 'c'>]>", b"&b;", b"utf-7", b"idna", b"unicode_escape"),
    ),
    Reader(
        "toml", lambda: [TOML], through_file("a.toml", read_options), (b"[train.chain]\n", b"[[", b"a.b.c", b" = {")
    ),
    Reader("label-names", lambda: [NAMES], through_file("names.txt", read_label_names), (b"#00ff00 x\n", b"255 y\n")),
)
