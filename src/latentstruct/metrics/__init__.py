"""Quality measures of whole predictions, as people of each field count them."""

from latentstruct.metrics.boxes import box_scores
from latentstruct.metrics.chunks import ChunkScore, ChunkScores, chunk_scores, chunk_spans
from latentstruct.metrics.clusters import ClusterScore, ClusterScores, cluster_scores
from latentstruct.metrics.ranking import (
    RankingScores,
    average_precision,
    ndcg_at_k,
    precision_at_k,
    ranking_scores,
)

__all__ = [
    "ChunkScore",
    "ChunkScores",
    "ClusterScore",
    "ClusterScores",
    "RankingScores",
    "average_precision",
    "box_scores",
    "chunk_scores",
    "chunk_spans",
    "cluster_scores",
    "ndcg_at_k",
    "precision_at_k",
    "ranking_scores",
]
