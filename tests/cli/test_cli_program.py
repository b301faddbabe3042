"""Programs as JSON lines: known, half known and broken files."""

import json

import pytest

from command import fail, run


def row(k, known=True):
    """Return a program that chooses one of two variables, the one with the larger feature."""
    values = (1.0 + k % 3, 0.5) if k % 2 else (0.25, 2.0 + k % 4)
    variables = {
        name: {"features": {"size": x, "same": 1.0}, **({"value": int(x == max(values))} if known else {})}
        for name, x in zip("ab", values, strict=True)
    }
    return {"variables": variables, "constraints": [{"terms": {"a": 1, "b": 1}, "lower": 1, "upper": 1}]}


def write(path, rows):
    path.write_text("".join(json.dumps(one) + "\n" for one in rows))
    return path


def train(data, out, *options):
    return json.loads(run("train", "program", data, "-o", out, "-q", "--json", *options).stdout)


@pytest.mark.parametrize("options", [(), ("--relaxation", "lp"), ("--max-nodes", "5", "--gap", "0.1")])
def test_values_are_found(tmp_path, options):
    data = write(tmp_path / "train.jsonl", map(row, range(10)))
    reported = train(data, tmp_path / "model", "--valid", data, *options)
    assert (reported["estimator"], reported["certified"]) == ("StructuralSVM", True)
    assert (reported["n_variables"], reported["n_constraints"], reported["n_features"]) == (20, 10, 2)
    assert reported["valid"]["accuracy"] == reported["valid"]["f1"] == 1.0
    plain = write(tmp_path / "plain.jsonl", [row(k, known=False) for k in range(4)])
    run("predict", tmp_path / "model", plain, "-o", tmp_path / "out.jsonl")
    found = [json.loads(line)["values"] for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert found == [{name: one["value"] for name, one in row(k)["variables"].items()} for k in range(4)]


def test_unknown_values_are_latent(tmp_path):
    rows = [row(k, known=bool(k % 3)) for k in range(12)]
    reported = train(write(tmp_path / "half.jsonl", rows), tmp_path / "model")
    assert (reported["estimator"], reported["latent"]) == ("LatentSSVM", True)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda one: one["variables"].clear(), "line 2: expected at least one variable"),
        (lambda one: one["constraints"][0]["terms"].update(c=1), "the variable 'c' in constraints[0]"),
        (lambda one: one["constraints"][0].update(lower=3, upper=3), "which violates it by 2"),
        (lambda one: one["variables"]["a"].update(value=7), "7 for variable 'a'"),
        (lambda one: one["variables"]["a"].update(upper=None), "between its bounds"),
        (lambda one: one["variables"]["a"].update(values=1), "unknown field values"),
    ],
)
def test_broken_files_are_named(tmp_path, change, message):
    rows = [row(0), row(1), row(2)]
    change(rows[1])
    data = write(tmp_path / "train.jsonl", rows)
    error = fail("train", "program", data, "-o", tmp_path / "model")
    assert message in " ".join(error.split())
    assert "train.jsonl, " in error


def test_files_without_programs_or_values(tmp_path):
    assert "expected programs" in fail("train", "program", write(tmp_path / "a.jsonl", []), "-o", tmp_path / "m")
    rows = [row(0, known=False)]
    assert "a known value" in fail("train", "program", write(tmp_path / "b.jsonl", rows), "-o", tmp_path / "m")


def test_an_infeasible_program_is_named_when_predicting(tmp_path):
    train(write(tmp_path / "train.jsonl", map(row, range(4))), tmp_path / "model")
    broken = row(0, known=False)
    broken["constraints"].append({"terms": {"a": 1, "b": 1}, "lower": 2, "name": "both"})
    data = write(tmp_path / "plain.jsonl", [row(1), broken])
    error = fail("predict", tmp_path / "model", data, "-o", tmp_path / "out.jsonl")
    assert "program 2" in error
    assert "constraint '0', constraint 'both'" in " ".join(error.split())
