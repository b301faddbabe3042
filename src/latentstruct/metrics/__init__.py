"""Quality measures of whole predictions, as people of each field count them."""

from latentstruct.metrics.chunks import ChunkScore, ChunkScores, chunk_scores, chunk_spans

__all__ = ["ChunkScore", "ChunkScores", "chunk_scores", "chunk_spans"]
