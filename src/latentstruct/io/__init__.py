"""Readers and writers of file formats.

Readers accept plain or gzip-compressed UTF-8 text. They raise a `FormatError` with the path, the line and what was
expected if a file is malformed or cannot be read. Tables are read by `delimited.Table`, JSON lines by
`json_lines.read_records`, other text by `text.Source`.
"""

from typing import TYPE_CHECKING

from latentstruct.core.lazy import lazy_names

if TYPE_CHECKING:
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
    from latentstruct.io.conllu import ConlluSentences, read_conllu, write_conllu
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
    from latentstruct.io.programs import ProgramRecord, read_programs, write_values
    from latentstruct.io.ranking import Queries, read_queries, write_scores
    from latentstruct.io.spans import SpanText, TextToken, read_spans, read_texts, tokenize, write_spans
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

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
