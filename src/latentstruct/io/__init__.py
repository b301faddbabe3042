"""Readers and writers of the files people have.

Every reader takes plain or gzip-compressed UTF-8 text. It raises an `InputError` if there is no such file, and a
`FormatError` if the file is malformed: the message names the file, the line, what was found, what was expected and the
cure. Tables are read by `delimited.Table`, JSON lines by `json_lines.read_records`, other text by `text.Source`.
"""

from latentstruct.io.alignments import (
    SequencePairs,
    read_alignments,
    read_sequence_pairs,
    read_tracks,
    write_alignments,
)
from latentstruct.io.boxes import (
    ImageAnnotation,
    read_annotations,
    read_coco,
    read_label_table,
    read_voc,
    write_coco,
)
from latentstruct.io.brackets import format_tree, parse_tree, parse_trees, read_sentences, read_trees, write_trees
from latentstruct.io.columns import ColumnSentences, parse_conll, read_conll, write_conll
from latentstruct.io.coreference import read_coreference, write_coreference
from latentstruct.io.diversity import DiversityQuery, read_diversity, write_choices
from latentstruct.io.fasta import Sequences, read_fasta, write_fasta, write_sites
from latentstruct.io.graphs import (
    GraphFeatures,
    GraphRecord,
    graph_labels,
    predicted_graphs,
    read_graphs,
    write_graphs,
)
from latentstruct.io.groups import ItemGroups, read_groups, write_groups
from latentstruct.io.meme import MemeMotif, read_meme, write_meme
from latentstruct.io.ncbi_matrix import SubstitutionMatrix, blosum62, read_ncbi_matrix, write_ncbi_matrix
from latentstruct.io.ranking import Queries, read_queries, write_scores
from latentstruct.io.svmlight import read_svmlight
from latentstruct.io.tables import ClassData, read_classes, read_csv
from latentstruct.io.uai import (
    UaiModel,
    UaiSolutions,
    read_uai,
    read_uai_evidence,
    read_uai_query,
    read_uai_solutions,
    write_uai,
    write_uai_evidence,
    write_uai_query,
    write_uai_solutions,
)

__all__ = [
    "ClassData",
    "ColumnSentences",
    "DiversityQuery",
    "GraphFeatures",
    "GraphRecord",
    "ImageAnnotation",
    "ItemGroups",
    "MemeMotif",
    "Queries",
    "SequencePairs",
    "Sequences",
    "SubstitutionMatrix",
    "UaiModel",
    "UaiSolutions",
    "blosum62",
    "format_tree",
    "graph_labels",
    "parse_conll",
    "parse_tree",
    "parse_trees",
    "predicted_graphs",
    "read_alignments",
    "read_annotations",
    "read_classes",
    "read_coco",
    "read_conll",
    "read_coreference",
    "read_csv",
    "read_diversity",
    "read_fasta",
    "read_graphs",
    "read_groups",
    "read_label_table",
    "read_meme",
    "read_ncbi_matrix",
    "read_queries",
    "read_sentences",
    "read_sequence_pairs",
    "read_svmlight",
    "read_tracks",
    "read_trees",
    "read_uai",
    "read_uai_evidence",
    "read_uai_query",
    "read_uai_solutions",
    "read_voc",
    "write_alignments",
    "write_choices",
    "write_coco",
    "write_conll",
    "write_coreference",
    "write_fasta",
    "write_graphs",
    "write_groups",
    "write_meme",
    "write_ncbi_matrix",
    "write_scores",
    "write_sites",
    "write_trees",
    "write_uai",
    "write_uai_evidence",
    "write_uai_query",
    "write_uai_solutions",
]
