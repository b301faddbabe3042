"""Readers and writers of file formats.

Readers accept plain or gzip-compressed UTF-8 text. They raise a `FormatError` with the path, the line and what was
expected if a file is malformed or cannot be read. Tables are read by `delimited.Table`, JSON lines by
`json_lines.read_records`, other text by `text.Source`.
"""

from typing import TYPE_CHECKING

from latentstruct.core.lazy import lazy_names

if TYPE_CHECKING:
    from latentstruct.io.alignments import SequencePairs as SequencePairs
    from latentstruct.io.alignments import read_alignments as read_alignments
    from latentstruct.io.alignments import read_sequence_pairs as read_sequence_pairs
    from latentstruct.io.alignments import read_tracks as read_tracks
    from latentstruct.io.alignments import write_alignments as write_alignments
    from latentstruct.io.boxes import ImageAnnotation as ImageAnnotation
    from latentstruct.io.boxes import read_annotations as read_annotations
    from latentstruct.io.boxes import read_coco as read_coco
    from latentstruct.io.boxes import read_label_table as read_label_table
    from latentstruct.io.boxes import read_voc as read_voc
    from latentstruct.io.boxes import write_coco as write_coco
    from latentstruct.io.brackets import format_tree as format_tree
    from latentstruct.io.brackets import parse_tree as parse_tree
    from latentstruct.io.brackets import parse_trees as parse_trees
    from latentstruct.io.brackets import read_sentences as read_sentences
    from latentstruct.io.brackets import read_trees as read_trees
    from latentstruct.io.brackets import write_trees as write_trees
    from latentstruct.io.columns import ColumnSentences as ColumnSentences
    from latentstruct.io.columns import parse_conll as parse_conll
    from latentstruct.io.columns import read_conll as read_conll
    from latentstruct.io.columns import write_conll as write_conll
    from latentstruct.io.coreference import read_coreference as read_coreference
    from latentstruct.io.coreference import write_coreference as write_coreference
    from latentstruct.io.diversity import DiversityQuery as DiversityQuery
    from latentstruct.io.diversity import read_diversity as read_diversity
    from latentstruct.io.diversity import write_choices as write_choices
    from latentstruct.io.fasta import Sequences as Sequences
    from latentstruct.io.fasta import read_fasta as read_fasta
    from latentstruct.io.fasta import write_fasta as write_fasta
    from latentstruct.io.fasta import write_sites as write_sites
    from latentstruct.io.graphs import GraphFeatures as GraphFeatures
    from latentstruct.io.graphs import GraphRecord as GraphRecord
    from latentstruct.io.graphs import graph_labels as graph_labels
    from latentstruct.io.graphs import predicted_graphs as predicted_graphs
    from latentstruct.io.graphs import read_graphs as read_graphs
    from latentstruct.io.graphs import write_graphs as write_graphs
    from latentstruct.io.groups import ItemGroups as ItemGroups
    from latentstruct.io.groups import read_groups as read_groups
    from latentstruct.io.groups import write_groups as write_groups
    from latentstruct.io.meme import MemeMotif as MemeMotif
    from latentstruct.io.meme import read_meme as read_meme
    from latentstruct.io.meme import write_meme as write_meme
    from latentstruct.io.ncbi_matrix import SubstitutionMatrix as SubstitutionMatrix
    from latentstruct.io.ncbi_matrix import blosum62 as blosum62
    from latentstruct.io.ncbi_matrix import read_ncbi_matrix as read_ncbi_matrix
    from latentstruct.io.ncbi_matrix import write_ncbi_matrix as write_ncbi_matrix
    from latentstruct.io.programs import ProgramRecord as ProgramRecord
    from latentstruct.io.programs import read_programs as read_programs
    from latentstruct.io.programs import write_values as write_values
    from latentstruct.io.ranking import Queries as Queries
    from latentstruct.io.ranking import read_queries as read_queries
    from latentstruct.io.ranking import write_scores as write_scores
    from latentstruct.io.svmlight import read_svmlight as read_svmlight
    from latentstruct.io.tables import ClassData as ClassData
    from latentstruct.io.tables import read_classes as read_classes
    from latentstruct.io.tables import read_csv as read_csv
    from latentstruct.io.uai import UaiModel as UaiModel
    from latentstruct.io.uai import UaiSolutions as UaiSolutions
    from latentstruct.io.uai import read_uai as read_uai
    from latentstruct.io.uai import read_uai_evidence as read_uai_evidence
    from latentstruct.io.uai import read_uai_query as read_uai_query
    from latentstruct.io.uai import read_uai_solutions as read_uai_solutions
    from latentstruct.io.uai import write_uai as write_uai
    from latentstruct.io.uai import write_uai_evidence as write_uai_evidence
    from latentstruct.io.uai import write_uai_query as write_uai_query
    from latentstruct.io.uai import write_uai_solutions as write_uai_solutions

__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    {
        "alignments": ("SequencePairs", "read_alignments", "read_sequence_pairs", "read_tracks", "write_alignments"),
        "boxes": ("ImageAnnotation", "read_annotations", "read_coco", "read_label_table", "read_voc", "write_coco"),
        "brackets": ("format_tree", "parse_tree", "parse_trees", "read_sentences", "read_trees", "write_trees"),
        "columns": ("ColumnSentences", "parse_conll", "read_conll", "write_conll"),
        "coreference": ("read_coreference", "write_coreference"),
        "diversity": ("DiversityQuery", "read_diversity", "write_choices"),
        "programs": ("ProgramRecord", "read_programs", "write_values"),
        "fasta": ("Sequences", "read_fasta", "write_fasta", "write_sites"),
        "graphs": ("GraphFeatures", "GraphRecord", "graph_labels", "predicted_graphs", "read_graphs", "write_graphs"),
        "groups": ("ItemGroups", "read_groups", "write_groups"),
        "meme": ("MemeMotif", "read_meme", "write_meme"),
        "ncbi_matrix": ("SubstitutionMatrix", "blosum62", "read_ncbi_matrix", "write_ncbi_matrix"),
        "ranking": ("Queries", "read_queries", "write_scores"),
        "svmlight": ("read_svmlight",),
        "tables": ("ClassData", "read_classes", "read_csv"),
        "uai": (
            "UaiModel",
            "UaiSolutions",
            "read_uai",
            "read_uai_evidence",
            "read_uai_query",
            "read_uai_solutions",
            "write_uai",
            "write_uai_evidence",
            "write_uai_query",
            "write_uai_solutions",
        ),
    },
)
