"""Quality measures of whole predictions, by the conventions of each field."""

from typing import TYPE_CHECKING

from latentstruct.core.lazy import lazy_names

if TYPE_CHECKING:
    from latentstruct.metrics.alignments import alignment_scores as alignment_scores
    from latentstruct.metrics.alignments import modeler_scores as modeler_scores
    from latentstruct.metrics.alignments import q_scores as q_scores
    from latentstruct.metrics.boxes import box_scores as box_scores
    from latentstruct.metrics.chunks import ChunkScore as ChunkScore
    from latentstruct.metrics.chunks import ChunkScores as ChunkScores
    from latentstruct.metrics.chunks import chunk_scores as chunk_scores
    from latentstruct.metrics.chunks import chunk_spans as chunk_spans
    from latentstruct.metrics.clusters import ClusterScore as ClusterScore
    from latentstruct.metrics.clusters import ClusterScores as ClusterScores
    from latentstruct.metrics.clusters import cluster_scores as cluster_scores
    from latentstruct.metrics.diversity import DiversityScores as DiversityScores
    from latentstruct.metrics.diversity import diversity_scores as diversity_scores
    from latentstruct.metrics.diversity import expected_random_loss as expected_random_loss
    from latentstruct.metrics.diversity import subtopic_loss as subtopic_loss
    from latentstruct.metrics.diversity import subtopic_recall as subtopic_recall
    from latentstruct.metrics.measures import Contingency as Contingency
    from latentstruct.metrics.measures import contingency as contingency
    from latentstruct.metrics.measures import error_rate as error_rate
    from latentstruct.metrics.measures import f_beta as f_beta
    from latentstruct.metrics.measures import measure_scores as measure_scores
    from latentstruct.metrics.measures import prbep as prbep
    from latentstruct.metrics.measures import recall_at_k as recall_at_k
    from latentstruct.metrics.measures import roc_area as roc_area
    from latentstruct.metrics.parses import BracketScore as BracketScore
    from latentstruct.metrics.parses import ParseScores as ParseScores
    from latentstruct.metrics.parses import parse_counts as parse_counts
    from latentstruct.metrics.parses import parse_f1 as parse_f1
    from latentstruct.metrics.parses import parse_scores as parse_scores
    from latentstruct.metrics.ranking import RankingScores as RankingScores
    from latentstruct.metrics.ranking import average_precision as average_precision
    from latentstruct.metrics.ranking import ndcg_at_k as ndcg_at_k
    from latentstruct.metrics.ranking import precision_at_k as precision_at_k
    from latentstruct.metrics.ranking import ranking_scores as ranking_scores

__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    {
        "alignments": ("alignment_scores", "modeler_scores", "q_scores"),
        "boxes": ("box_scores",),
        "chunks": ("ChunkScore", "ChunkScores", "chunk_scores", "chunk_spans"),
        "clusters": ("ClusterScore", "ClusterScores", "cluster_scores"),
        "diversity": (
            "DiversityScores",
            "diversity_scores",
            "expected_random_loss",
            "subtopic_loss",
            "subtopic_recall",
        ),
        "measures": (
            "Contingency",
            "contingency",
            "error_rate",
            "f_beta",
            "measure_scores",
            "prbep",
            "recall_at_k",
            "roc_area",
        ),
        "parses": ("BracketScore", "ParseScores", "parse_counts", "parse_f1", "parse_scores"),
        "ranking": ("RankingScores", "average_precision", "ndcg_at_k", "precision_at_k", "ranking_scores"),
    },
)
