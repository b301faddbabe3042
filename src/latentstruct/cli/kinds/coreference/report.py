"""Report of coreference: texts with the forests of links."""

from functools import partial
from typing import Any

from latentstruct.cli.kind import Trained
from latentstruct.cli.kinds.cluster import report as clusters
from latentstruct.cli.lazy import mentions
from latentstruct.viz.plots.features import shorten
from latentstruct.viz.plots.forests import called_clusters, lettered_clusters
from latentstruct.viz.report.blocks import Block, Examples, Token, Tokens

WHAT = "mentions"
MOST_WORDS = 250
"""Number of words of a text that are shown."""


def examples(model: Trained, documents: "list[mentions.Document]", found: Any) -> Examples:
    """Return predicted clusters of documents with their forests."""
    truth = [document.clusters for document in documents]

    def names(i: int) -> list[str]:
        return [" ".join(documents[i].words(mention)) for mention in documents[i].mentions]

    X = partial(model.features.transform, documents)
    parts, losses, loss_name = clusters.clusterings(model.estimator, X, truth, found, names)

    def draw(i: int) -> list[Block]:
        return [*clusters.draw(parts[i], WHAT), show_text(documents[i], parts[i])]

    return Examples(
        [shorten(one.name + (f", part {one.part}" if one.part else ""), 60) for one in documents],
        losses,
        loss_name,
        [clusters.describe(one, WHAT) for one in parts],
        draw,
    )


def show_text(document: "mentions.Document", found: clusters.Clustering) -> Tokens:
    """Return the sentences of the shown mentions, with outermost mentions as units."""
    window, part = found.part()
    mentions = document.mentions[window]
    numbers, letters = called_clusters(part.found), lettered_clusters(part.truth)
    outer: dict[tuple[int, int], int] = {}
    for number, mention in enumerate(mentions):
        before = outer.get((mention.sentence, mention.start))
        if before is None or mentions[before].end < mention.end:
            outer[mention.sentence, mention.start] = number
    tokens, first = [], mentions[0].sentence
    for s in range(first, mentions[-1].sentence + 1):
        words, at = document.sentences[s], 0
        while at < len(words):
            k = outer.get((s, at))
            if k is None:
                tokens.append(Token(words[at]))
                at += 1
            else:
                alone = numbers[k] == letters[k] == "–"
                tokens.append(Token(" ".join(words[at : mentions[k].end]), numbers[k], "" if alone else letters[k]))
                at = mentions[k].end
    caption = "The text, with the numbers of predicted clusters and the letters of true ones below the mentions."
    if len(tokens) > MOST_WORDS:
        tokens, caption = tokens[:MOST_WORDS], f"{caption} The rest is not shown."
    return Tokens(tokens, caption)
