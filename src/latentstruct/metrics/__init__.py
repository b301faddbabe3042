"""Quality measures of whole predictions, as people of each field count them."""

from latentstruct.metrics.alignments import alignment_scores, modeler_scores, q_scores
from latentstruct.metrics.boxes import box_scores
from latentstruct.metrics.chunks import ChunkScore, ChunkScores, chunk_scores, chunk_spans
from latentstruct.metrics.clusters import ClusterScore, ClusterScores, cluster_scores
from latentstruct.metrics.diversity import (
    DiversityScores,
    diversity_scores,
    expected_random_loss,
    subtopic_loss,
    subtopic_recall,
)
from latentstruct.metrics.measures import (
    Contingency,
    contingency,
    error_rate,
    f_beta,
    measure_scores,
    prbep,
    recall_at_k,
    roc_area,
)
from latentstruct.metrics.parses import BracketScore, ParseScores, parse_counts, parse_f1, parse_scores
from latentstruct.metrics.ranking import (
    RankingScores,
    average_precision,
    ndcg_at_k,
    precision_at_k,
    ranking_scores,
)

__all__ = [
    "BracketScore",
    "ChunkScore",
    "ChunkScores",
    "ClusterScore",
    "ClusterScores",
    "Contingency",
    "DiversityScores",
    "ParseScores",
    "RankingScores",
    "alignment_scores",
    "average_precision",
    "box_scores",
    "chunk_scores",
    "chunk_spans",
    "cluster_scores",
    "contingency",
    "diversity_scores",
    "error_rate",
    "expected_random_loss",
    "f_beta",
    "measure_scores",
    "modeler_scores",
    "ndcg_at_k",
    "parse_counts",
    "parse_f1",
    "parse_scores",
    "prbep",
    "precision_at_k",
    "q_scores",
    "ranking_scores",
    "recall_at_k",
    "roc_area",
    "subtopic_loss",
    "subtopic_recall",
]
