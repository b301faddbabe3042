"""Prepare sentences: a file is read twice, part by part, to learn or check it and to write its features."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from latentstruct.cli.kind import Trained
from latentstruct.cli.kinds.chain import files
from latentstruct.cli.kinds.chain.command import ChainPrepareOptions
from latentstruct.cli.prepared import Blocks, ToPrepare, unknown_to
from latentstruct.exceptions import Description, FormatError
from latentstruct.features.windows import WindowFeatures
from latentstruct.io import ColumnSentences
from latentstruct.io.blocks import read_conll_blocks
from latentstruct.progress.display import Progress
from latentstruct.tasks import Chain


def prepare(options: ChainPrepareOptions, like: Trained | None, progress: Progress) -> ToPrepare:
    """Survey a file."""
    files.refuse_conllu(options.data, None if like is None else like.record)
    task: Any = Chain(rules=options.allowed)
    template = options.template() if like is None else like.features
    if like is None:
        record, counts, blank = *_learn(options, template), options.blank
        files.check_marks(counts, record.unknown, options.data)
        record = replace(record, features=template.to_state())
        known = [
            files.parse_label(text, record.unknown) if record.label_sets else text
            for text in counts
            if text != record.unknown
        ]
        files.check_sets(record.label_sets, files.has_sets([known]), options.data)
        labels = sorted(files.single_labels([known]))
        files.check_rules(options.allowed, labels, (), options.data, 0)
        n_features, latent = template.n_features_, record.unknown is not None or record.label_sets
        task.restore({"labels": labels, "n_inputs": n_features, "latent": latent})
        n_tokens = counts.total()
    else:
        task = like.estimator.task_
        # In a file without labels other columns move, unless the labels are in the last one.
        blank = like.record.blank if not options.unlabeled or like.record.label_is_last else {}
        n_examples, n_tokens, counts = _survey(options, like, blank)
        record = replace(like.record, n_examples=n_examples, seconds=0.0)
    progress.say(f"read {record.n_examples} sentences, {n_tokens} tokens from {options.data}: writing their features")
    sizes = {"n_tokens": n_tokens, "n_features": task.n_inputs_, "n_labels": len(task.labels_)}
    if record.unknown is not None and not options.unlabeled:
        sizes["n_unlabeled"] = counts[record.unknown]
    return ToPrepare(task, record, sizes, _blocks(options, record, template, blank, task))


def _learn(options: ChainPrepareOptions, template: WindowFeatures) -> tuple[files.ChainRecord, Counter[str]]:
    """Learn the features; return the record of a model without them, and the counts of labels."""
    counts: Counter[str] = Counter()
    options.chosen_columns()
    record = files.ChainRecord(
        features={},
        label_column=0,
        n_columns=0,
        columns=[0],
        unknown=options.mark,
        label_sets=options.label_sets,
        n_examples=0,
    )

    def used_columns() -> Iterator[ColumnSentences]:
        nonlocal record
        for part in read_conll_blocks(options.data, options.blank):
            label_at, used = options.places(part, options.data)
            counts.update(part.columns[label_at])
            record = replace(record, label_column=label_at, n_columns=part.n_columns, columns=used)
            # Sets of labels are checked here, where the number of the sentence is known.
            record.labels_of(part, options.data, record.n_examples)
            record = replace(record, n_examples=record.n_examples + len(part))
            yield files.choose(part, used)

    template.fit_blocks(used_columns())
    return record, counts


def _survey(options: ChainPrepareOptions, model: Trained, blank: dict[int, str]) -> tuple[int, int, Counter[str]]:
    """Return the numbers of sentences, tokens and labels; raise if the model cannot read the file."""
    n_examples = n_tokens = 0
    counts: Counter[str] = Counter()
    record, name = model.record, options.data
    for part in read_conll_blocks(name, blank):
        record.used_columns(part, name)
        if not options.unlabeled:
            record.check_labeled(part, name, "Use labeled data, or `unlabeled`.")
            _check_labels(model, part, name, n_examples)
            counts.update(part.columns[record.label_column])
        n_examples, n_tokens = n_examples + len(part), n_tokens + part.n_tokens
    if not options.unlabeled and counts.keys() == {record.unknown}:
        raise files.no_known_labels(name, record.unknown)
    return n_examples, n_tokens, counts


def _check_labels(model: Trained, part: ColumnSentences, name: str, n_before: int) -> None:
    """Raise unless the model knows all labels of some sentences, or they are unknown."""
    record, latent = model.record, model.estimator.task_.latent
    allowed = model.labels | ({record.unknown} if latent else set())
    if allowed.issuperset(part.columns[record.label_column]):
        return
    for i, labels in enumerate(record.labels_of(part, name, n_before), n_before + 1):
        for j, item in enumerate(labels, 1):
            where = f"{name}, token {j} of sentence {i}"
            if not latent and (item == record.unknown or files.is_set(item)):
                hint = f"{model.path} was trained with --labeled-only. Use `unlabeled`, or the plain file."
                got = f"an unknown label, {item!r}" if item == record.unknown else "several labels"
                raise FormatError(where, Description(got), "a known label", hint)
            for label in files.possible_labels(item):
                if label not in allowed:
                    raise unknown_to(model, where, label, record.unknown)


def _blocks(
    options: ChainPrepareOptions,
    record: files.ChainRecord,
    template: WindowFeatures,
    blank: dict[int, str],
    task: Chain,
) -> Blocks:
    """Yield features and labels, −1 for unknown labels."""
    n_before = 0
    for part in read_conll_blocks(options.data, blank):
        labels: Any = None
        if not options.unlabeled:
            labels = files.marked(record.labels_of(part, options.data, n_before), record.unknown)
            files.check_rules(task.rules, task.labels_.labels, labels, options.data, n_before)
        n_before += len(part)
        yield template.transform(record.used_columns(part, options.data)), labels
