"""Models that find labeled spans of tokens: semi-Markov chains with weights for the lengths of spans."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from latentstruct import io, tasks
from latentstruct.cli.answers import F1, RISK, several
from latentstruct.cli.common import unknown_label
from latentstruct.cli.declaring import argument, option, weight_option
from latentstruct.cli.description import strongest, strongest_transitions, strongest_weights
from latentstruct.cli.kind import LABEL_WEIGHTS, TRANSITIONS, KindSpec, Loaded, Trained, print_ratios, record_of
from latentstruct.cli.kinds.chain.files import FeatureOptions
from latentstruct.cli.options import HeldOut, LabelOptions
from latentstruct.exceptions import Description, FormatError
from latentstruct.metrics.counts import FoundScore
from latentstruct.progress.display import Progress

OUTSIDE = "O"
"""The label of tokens in no span, each of which is a segment of its own."""
ESTIMATORS = {"crf": ("CRF", "HiddenCRF"), "svm": ("StructuralSVM", "LatentSSVM")}
Span = tuple[int, int, str | None]


@dataclass(frozen=True, kw_only=True)
class SegmentsOptions(FeatureOptions, LabelOptions):
    """Train on sentences with labeled spans: a line is {"tokens": ["Anna", "left"], "spans": [[0, 1, "PER"]]}.

    A span is its first token, counted from 0, the token after its last one, and its label, null if that is unknown.
    Spans do not overlap. Tokens in no span are outside of all or, with --partial, possibly in an unmarked one.

    Unlike train chain, the weights depend on whole spans: on their length, and on the span before.

    Example: latentstruct train segments train.jsonl --valid test.jsonl -o spans
    """

    data: str = argument("Sentences as JSON lines; - is standard input.")
    model: Literal["crf", "svm"] = option(
        "crf", "crf sums unknown labels and spans out, svm maximizes over them.", metavar="NAME"
    )
    C: float = weight_option(1.0, "sentence")
    longest: int | None = option(None, "Number of tokens of the longest span.", min=1, shown="that of the data")
    partial: bool = option(False, "Tokens in no span may be in one that is not marked.")


@dataclass(frozen=True)
class Sentences:
    """Sentences: their tokens, and their spans if they are known."""

    tokens: list[list[str]]
    spans: list[list[Span]]
    texts: "list[io.SpanText]"

    def inputs(self) -> list[list[tuple[str]]]:
        """Return the tokens as features take them."""
        return [[(token,) for token in tokens] for tokens in self.tokens]

    def segments(self) -> list[list[tuple[int, int, Any]]]:
        """Return the spans, with one segment per token in none."""
        found = []
        for tokens, spans in zip(self.tokens, self.spans, strict=True):
            free = set(range(len(tokens))) - {t for first, stop, _ in spans for t in range(first, stop)}
            found.append(sorted([*spans, *((t, t + 1, OUTSIDE) for t in free)], key=lambda one: one[0]))
        return found


class SegmentsKind(KindSpec):
    """Labeled spans of tokens."""

    name = "segments"
    item = "sentence"
    summary = "Find labeled spans of tokens, with weights for their lengths."
    latent = "the labels of spans that are null, and spans that are not marked, with --partial"
    reads = (
        'JSON lines, one per sentence: {"tokens": ["Anna", "Berg", …], "spans": [[0, 2, "PER"], …]}, or with '
        'characters as Doccano and Prodigy do: {"text": "Anna Berg left", "label": [[0, 9, "PER"]]}.'
    )
    example_file = "segments.jsonl"
    prediction_file = "predicted.jsonl"
    predicts = (
        "Spans: JSON lines as in DATA with the spans found. With --text, DATA is plain text, a sentence on each line."
    )
    judged_by = "Spans: precision, recall and F1 of spans, overall and per label."
    options = SegmentsOptions
    record = record_of(features=dict[str, Any], n_tokens=int, n_spans=int)
    tasks = ("SemiMarkov",)
    features = "features.windows.WindowFeatures"
    per_example = ("tokens", "spans", "texts")
    answers = frozenset({"topk", "samples", "decode", RISK, F1, "pins", "confidence", "text"})
    calibrates = True
    judged_on = frozenset({"data", "allow_unknown"})
    score_facts = (
        ("sentences", "{n_examples}, {example_accuracy:%} fully correct"),
        ("spans", "{n_true}, {recall:%} found"),
    )
    headline = (("F1", "f1"), ("fully correct", "example_accuracy"))
    main = ("f1",)
    described = ("estimator.task_.longest_", "record.n_spans")
    info_facts = (("longest span", "{longest} tokens"),)
    tables = (TRANSITIONS, LABEL_WEIGHTS, ("lengths", "strongest weights of lengths", ("label", "tokens", "weight")))

    def load(self, options: SegmentsOptions, progress: Progress) -> Loaded:
        data = read_sentences(options.data, labeled=True)
        n_tokens, n_spans = sum(map(len, data.tokens)), sum(map(len, data.spans))
        progress.say(f"read {len(data.tokens)} sentences, {n_tokens} tokens, {n_spans} spans from {options.data}")
        labels = {label for spans in data.spans for *_, label in spans if label is not None}
        if not labels:
            raise FormatError(options.data, Description("none"), "some spans with labels")
        segments = data.spans if options.partial else data.segments()
        Y = [[(first, stop, -1 if label is None else label) for first, stop, label in one] for one in segments]
        latent = options.partial or any(label is None for spans in data.spans for *_, label in spans)
        template = options.template()
        X = template.fit_transform(data.inputs())
        known = sorted({*labels, OUTSIDE})
        estimator = options.build(
            ESTIMATORS[options.model][latent],
            tasks.SemiMarkov(known, options.longest),
            random_state=options.seed if latent else None,
        )
        sizes = {"n_examples": len(X), "n_tokens": n_tokens, "n_spans": n_spans}
        sizes |= {"n_features": template.n_features_, "n_labels": len(labels)}
        record = self.new_record(sizes, features=template.to_state())
        return Loaded(X, Y, estimator, sizes, record, template, frozenset(known), data)

    def read(self, model: Trained, held_out: HeldOut) -> Sentences:
        name = held_out.data or ""
        data = read_sentences(name, labeled=True)
        for i, spans in enumerate(data.spans, 1):
            for first, stop, label in spans:
                where = f"{name}, sentence {i}, span from {first} to {stop}"
                if label is None:
                    raise FormatError(where, Description("none"), "a label")
                if label not in model.labels and not held_out.allow_unknown:
                    raise unknown_label(where, label, model.labels - {OUTSIDE})
        return data

    def compare(self, model: Trained, data: Sentences, found: list[list[Span]]) -> dict[str, Any]:
        n_true, n_predicted, n_correct = Counter[str](), Counter[str](), Counter[str]()
        n_right = 0
        for truth, guess in zip(data.spans, found, strict=True):
            right = set(truth) & {tuple(span) for span in guess}
            for counts, spans in ((n_true, truth), (n_predicted, guess), (n_correct, right)):
                counts.update(str(label) for *_, label in spans)
            n_right += len(right) == len(truth) == len(guess)
        scores = asdict(FoundScore.of_counts(n_true.total(), n_predicted.total(), n_correct.total()))
        by_label = {label: asdict(one) for label, one in FoundScore.of_each(n_true, n_predicted, n_correct).items()}
        return {"n_examples": len(found), "example_accuracy": n_right / len(found), **scores, "by_label": by_label}

    def find(self, model: Trained, data: Sentences) -> list[list[Span]]:
        return list(map(labeled, self.outputs(model, model.features.transform(data.inputs()))))

    def labeled_examples(self, model: Trained, data: Sentences) -> tuple[Any, Any]:
        known = model.labels
        Y = [[(a, b, label if label in known else -1) for a, b, label in one] for one in data.segments()]
        return model.features.transform(data.inputs()), Y

    def is_right(self, truth: Any, guess: Any) -> list[bool | None]:
        return [None if one[2] == OUTSIDE else one in truth for one in guess]

    def f1_loss(self, model: Trained) -> Callable[..., Any]:
        from latentstruct.metrics.chunks import spans_f1_loss

        return lambda true, found: spans_f1_loss(*([set(labeled(y)) for y in side] for side in (true, found)))

    def predict(self, model: Trained, data: str, output: str) -> None:
        if model.answers.confidence:
            model.answers.refuse_confidence(model.estimator)
        sentences = read_sentences(data, labeled=False, plain=model.answers.text)
        texts, X = sentences.texts, model.features.transform(sentences.inputs())
        fixed = None
        if model.answers.pins:
            fixed = [[(a, b, -1 if label is None else label) for a, b, label in one] for one in sentences.spans]
        if model.answers.several:
            found = several(model.estimator, X, model.answers, fixed)
            texts = [replace(texts[one.example], others={**texts[one.example].others, **one.note}) for one in found]
            outputs: Sequence[Any] = [one.y for one in found]
        else:
            outputs = self.outputs(model, X, fixed)
        if model.answers.confidence:
            given = zip(outputs, model.estimator.confidence(X), strict=True)
            notes = [{"confidence": shares_of_spans(*both)} for both in given]
            texts = [replace(one, others={**one.others, **note}) for one, note in zip(texts, notes, strict=True)]
        io.write_spans(output, texts, list(map(labeled, outputs)))

    def show_score_tables(self, scores: dict[str, Any]) -> None:
        print_ratios("spans", "label", [("all", scores), *scores["by_label"].items()])

    def describe(self, model: Trained, top: int) -> dict[str, Any]:
        names, estimator = model.features.get_feature_names_out().tolist(), model.estimator
        lengths, labels = length_weights(estimator).ravel(), estimator.task_.labels_.labels
        n = len(labels)
        return {
            **super().describe(model, top),
            "transitions": strongest_transitions(estimator, top),
            "weights": strongest_weights(estimator, names.__getitem__, top),
            "lengths": strongest(lengths, top, lambda k: {"label": labels[k % n], "tokens": k // n + 1}),
        }


def labeled(segments: Iterable[Span]) -> list[Span]:
    """Return the segments that are spans."""
    return [one for one in segments if one[2] != OUTSIDE]


def shares_of_spans(segments: Iterable[Span], shares: Any) -> list[float]:
    """Return the probabilities of the segments that are spans."""
    return [round(share, 6) for one, share in zip(segments, shares.tolist(), strict=True) if one[2] != OUTSIDE]


def length_weights(estimator: Any) -> Any:
    """Return the weights (L, S) of the lengths 1 … L of segments and their labels."""
    return estimator.coef_[-estimator.task_.longest_ * len(estimator.task_.labels_) :].reshape(
        -1, len(estimator.task_.labels_)
    )


def read_sentences(name: str, labeled: bool, plain: bool = False) -> Sentences:
    """Read sentences, or lines of plain text; their spans must be there if they are `labeled`."""
    texts = io.read_texts(name) if plain else io.read_spans(name)
    for i, one in enumerate(texts, 1):
        where = f"{name}, sentence {i}"
        if labeled and one.spans is None:
            raise FormatError(where, Description("none"), "a list of spans, which may be empty")
        if any(label == OUTSIDE for *_, label in one.spans or []):
            got = Description(f"a span with the label {OUTSIDE!r}")
            raise FormatError(where, got, "another label, as this one means no span")
    if not texts:
        raise FormatError(name, Description("none"), "sentences, one per line")
    return Sentences([one.tokens for one in texts], [one.spans or [] for one in texts], texts)


KIND = SegmentsKind()
