"""Quality measures of whole predictions, by the conventions of each field."""

from typing import TYPE_CHECKING

from latentstruct.core.lazy import lazy_names

if TYPE_CHECKING:
    from latentstruct.metrics.alignments import alignment_scores, modeler_scores, q_scores
    from latentstruct.metrics.boxes import box_scores
    from latentstruct.metrics.calibration import Reliability, reliability
    from latentstruct.metrics.chunks import (
        ChunkScore,
        ChunkScores,
        chunk_f1_loss,
        chunk_f1_scorer,
        chunk_scores,
        chunk_spans,
    )
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
    from latentstruct.metrics.ranking import RankingScores, average_precision, ndcg_at_k, precision_at_k, ranking_scores

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
