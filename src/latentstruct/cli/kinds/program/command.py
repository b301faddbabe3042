"""Models of outputs that linear constraints describe."""

from dataclasses import asdict, dataclass
from typing import Any, Literal

from latentstruct import io, tasks
from latentstruct.cli.declaring import argument, option, weight_option
from latentstruct.cli.kind import KindSpec, Loaded, Trained, record_of
from latentstruct.cli.options import HeldOut, TrainOptions
from latentstruct.exceptions import InputError
from latentstruct.metrics.counts import FoundScore
from latentstruct.progress.display import Progress


@dataclass(frozen=True, kw_only=True)
class ProgramOptions(TrainOptions):
    """Train on outputs that linear constraints describe, such as matchings, tracks or label sets.

    One line per example: {"variables": {"a": {"features": {"near": 1.5}, "value": 1}, …}, "constraints": [{"terms":
    {"a": 1, "b": 1}, "upper": 1}, …]}. Values that are null or left out are unknown: latent.

    Example: latentstruct train program train.jsonl --valid test.jsonl -o matcher
    """

    data: str = argument("Programs as JSON lines; - is standard input.")
    C: float = weight_option(0.1, "example")
    relaxation: Literal["none", "lp"] = option(
        "none", "lp trains with linear relaxations instead of integer programs.", metavar="NAME"
    )
    gap: float = option(0.0, "Relative gap at which the search for an output may end.", min=0.0)
    max_nodes: int | None = option(None, "Maximum number of nodes of a search.", min=0, shown="no limit")


class ProgramKind(KindSpec):
    """Outputs that linear constraints describe."""

    name = "program"
    summary = "Choose values of variables under linear constraints: matchings, tracks, label sets."
    latent = "variables whose value is null or left out"
    reads = (
        'JSON lines, one per example: {"variables": {"a": {"features": {…}, "value": 1}, …}, '
        '"constraints": [{"terms": {"a": 1, "b": 1}, "upper": 1}, …]}.'
    )
    example_file = "program.jsonl"
    prediction_file = "predicted.jsonl"
    predicts = "Programs: JSON lines with the values of all variables."
    judged_by = "Programs: known variables with the right value; precision, recall and F1 of those that are not 0."
    options = ProgramOptions
    record = record_of(features=list[str], n_variables=int, n_constraints=int)
    tasks = ("Program",)
    item = "program"
    score_facts = (
        ("examples", "{n_examples}, {example_accuracy:%} fully correct"),
        ("variables", "{n_known} known, {accuracy:%} correct"),
        ("not 0", "{n_true}, {recall:%} found, F1 {f1:%}"),
    )
    headline = (("correct", "accuracy"), ("F1", "f1"))
    main = ("accuracy",)
    described = ("record.n_variables", "record.n_constraints")
    weights_mean = "features with positive weights favor large values of a variable"
    misses_labels = True

    def load(self, options: ProgramOptions, progress: Progress) -> Loaded:
        records = io.read_programs(options.data)
        features = sorted({name for one in records for x in one.variables.values() for name in x.features})
        if not features:
            raise InputError("data", options.data, "programs with features")
        n_variables, n_constraints = (
            sum(map(len, some)) for some in zip(*((one.variables, one.constraints) for one in records), strict=True)
        )
        progress.say(f"read {len(records)} programs, {n_variables} variables, {n_constraints} constraints")
        task = tasks.Program(options.relaxation, options.gap, options.max_nodes)
        X, Y = inputs(records, features), [one.output() for one in records]
        task.learn(X, Y)
        estimator = options.latent_svm(task)
        sizes = {"n_examples": len(X), "n_variables": n_variables, "n_constraints": n_constraints}
        record = self.new_record(sizes, features=features)
        return Loaded(X, Y, estimator, {**sizes, "n_features": len(features)}, record, shown=records)

    def fits(self, model: Trained) -> bool:
        return len(model.record.features) == model.estimator.task_.n_features

    def read(self, model: Trained, held_out: HeldOut) -> "list[io.ProgramRecord]":
        return io.read_programs(held_out.data or "")

    def compare(self, model: Trained, data: "list[io.ProgramRecord]", found: list[Any]) -> dict[str, Any]:
        n_known = n_right = n_true = n_predicted = n_found = n_whole = 0
        for record, values in zip(data, found, strict=True):
            pairs = [(one.value, y) for one, y in zip(record.variables.values(), values.tolist(), strict=True)]
            known = [(truth, y) for truth, y in pairs if truth is not None]
            right = sum(truth == y for truth, y in known)
            n_known, n_right, n_whole = n_known + len(known), n_right + right, n_whole + (right == len(known))
            n_true += sum(truth != 0 for truth, _ in known)
            n_predicted += sum(y != 0 for _, y in known)
            n_found += sum(truth == y != 0 for truth, y in known)
        return {
            "n_examples": len(data),
            "example_accuracy": n_whole / len(data),
            "n_known": n_known,
            "accuracy": n_right / n_known,
            **asdict(FoundScore.of_counts(n_true, n_predicted, n_found)),
        }

    def find(self, model: Trained, data: "list[io.ProgramRecord]") -> Any:
        return model.estimator.predict(inputs(data, model.record.features))

    def predict(self, model: Trained, data: str, output: str) -> None:
        records = io.read_programs(data, labeled=False)
        io.write_values(output, records, self.find(model, records))

    def weight_names(self, model: Trained) -> list[str]:
        return list(model.record.features)


def inputs(records: "list[io.ProgramRecord]", features: list[str]) -> list[Any]:
    """Return programs as the task takes them."""
    columns = {name: k for k, name in enumerate(features)}
    return [one.input(columns) for one in records]


KIND = ProgramKind()
