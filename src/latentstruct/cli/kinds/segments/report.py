"""Report of spans: features and lengths of labels, and sentences with their spans."""

import numpy as np

from latentstruct.cli.blocks import label_table, label_weights, sentence_name
from latentstruct.cli.kind import Trained
from latentstruct.cli.kinds.chain.report import POSITIONS, show_feature, transition_block
from latentstruct.cli.kinds.segments.command import Sentences, Span, length_weights
from latentstruct.viz.plots.features import shorten
from latentstruct.viz.report.blocks import Block, Examples, Mark, TableBlock, Token, Tokens

LONGEST_SHOWN = 12
MOST_TOKENS = 400


def weight_blocks(model: Trained) -> list[Block]:
    """Return the transitions, the features of each label, and the weights of lengths."""
    estimator, names = model.estimator, model.features.get_feature_names_out().tolist()
    labels = list(estimator.task_.labels_.labels)
    features = label_table(labels, label_weights(estimator), lambda k: show_feature(names[k], [0]), POSITIONS)
    weights = length_weights(estimator)[:LONGEST_SHOWN]
    rows = [[shorten(label), *(f"{value:+.3g}" for value in weights[:, k])] for k, label in enumerate(labels)]
    columns = ("label", *(str(length) for length in range(1, len(weights) + 1)))
    lengths = TableBlock("Weights of spans by number of tokens", columns, rows)
    return [transition_block(estimator, labels), features, lengths]


def examples(model: Trained, data: Sentences, found: list[list[Span]]) -> Examples:
    """Return predicted spans of sentences, with the fraction of wrong and missed ones."""
    pairs = [({*truth}, {*guess}) for truth, guess in zip(data.spans, found, strict=True)]
    losses = [len(truth ^ guess) / max(len(truth) + len(guess), 1) for truth, guess in pairs]
    return Examples(
        [sentence_name(i, tokens) for i, tokens in enumerate(data.tokens, 1)],
        np.array(losses),
        "1 − F1 of spans",
        [f"{len(truth & guess)} of {len(truth)} spans found, {len(guess - truth)} wrong" for truth, guess in pairs],
        lambda i: [_sentence(data.tokens[i], data.spans[i], found[i])],
    )


def _sentence(tokens: list[str], truth: list[Span], guess: list[Span]) -> Tokens:
    """Return the predicted spans, and the missed true spans where no predicted one is."""
    right, taken = set(truth), {t for first, stop, _ in guess for t in range(first, stop)}
    missed = [one for one in truth if one not in guess and taken.isdisjoint(range(one[0], one[1]))]
    begins = {first: (stop, label) for first, stop, label in [*guess, *missed]}
    shown, at = [], 0
    while at < len(tokens):
        stop, label = begins.get(at, (at + 1, ""))
        words = " ".join(shorten(token, 40) for token in tokens[at:stop])
        if not label:
            shown.append(Token(words))
        elif at in taken:
            mark: Mark = "" if (at, stop, label) in right else "wrong"
            shown.append(Token(words, label, _truth_at(at, stop, truth) if mark else "", mark))
        else:
            shown.append(Token(words, "–", label, "missed"))
        at = stop
    more = f" {len(shown) - MOST_TOKENS} further words are not shown." if len(shown) > MOST_TOKENS else ""
    return Tokens(shown[:MOST_TOKENS], f"Predicted spans; wrong ones with the true spans that they overlap.{more}")


def _truth_at(first: int, stop: int, truth: list[Span]) -> str:
    met = [f"{label} {a}–{b - 1}" for a, b, label in truth if a < stop and first < b]
    return ", ".join(met) or "none"
