"""The contract between structures and the rest: what the rest reads from a task or batch is declared."""

import ast
from dataclasses import replace
from inspect import get_annotations
from pathlib import Path

import numpy as np
import pytest

import latentstruct
from error_fields import raises
from latentstruct import Chain, Multiclass, StructuralSVM, Temperature
from latentstruct.core import protocols
from latentstruct.core.ratios import CountedLabels
from latentstruct.core.selected import SelectsWeights
from latentstruct.tasks.base import BaseTask

FOLDER = Path(latentstruct.__file__).parent
READERS = sorted(path for name in ("core", "solvers", "estimators") for path in (FOLDER / name).glob("*.py"))
TASKS, BATCHES = {"task", "task_", "known_task", "by_scores"}, {"batch", "whole"}


def declared(*kinds):
    """Return the names that classes declare, with or without a value."""
    bases = [base for kind in kinds for base in kind.__mro__]
    return {name for base in bases for name in (*vars(base), *get_annotations(base))}


KINDS_OF_TASKS = (
    protocols.LatentLossTask,
    protocols.Classifier,
    protocols.WeightedInputs,
    protocols.StateWeights,
    CountedLabels,
    SelectsWeights,
)
OF_TASKS = declared(BaseTask, protocols.Task, *KINDS_OF_TASKS)
OF_BATCHES = declared(
    protocols.Batch,
    protocols.KnownBatch,
    protocols.RememberingBatch,
    protocols.ApproximateBatch,
    protocols.RowBatch,
    protocols.StateBatch,
)


def holder(node):
    """Return whether an expression stands for a task or a batch, by its name."""
    name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else None
    return "task" if name in TASKS else "batch" if name in BATCHES else None


def reads(path):
    """List what a file reads from tasks and batches: line, holder and name."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute) and (kind := holder(node.value)):
            yield node.lineno, kind, node.attr
        sniffs = (
            isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("getattr", "hasattr")
        )
        if sniffs and (kind := holder(node.args[0])):
            yield node.lineno, kind, f"{node.func.id}: {ast.unparse(node)}"


@pytest.mark.parametrize("path", READERS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_what_is_read_from_structures_is_declared(path):
    known = {"task": OF_TASKS, "batch": OF_BATCHES}
    assert [found for found in reads(path) if found[2] not in known[found[1]]] == []


@pytest.mark.parametrize("path", READERS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_tasks_and_batches_in_signatures_have_types(path):
    functions = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef)]
    given = [argument for one in functions for argument in (*one.args.args, *one.args.kwonlyargs)]
    named = [argument for argument in given if argument.arg in TASKS | BATCHES]
    assert [one.arg for one in named if one.annotation is None or ast.unparse(one.annotation) == "Any"] == []


def test_the_collector_sees_reads():
    found = {(kind, name) for path in READERS for _, kind, name in reads(path)}
    assert {("task", "pool_batch"), ("task", "latent"), ("batch", "n_examples")} <= found


@pytest.mark.parametrize("name", ["planes", "total"])
def test_what_follows_from_pool_batch_is_not_defined_twice(name):
    with pytest.raises(TypeError, match=rf"Own defines {name}\(\), which follows from pool_batch\(\)"):
        type("Own", (Chain,), {name: lambda self, *arguments: None})


def test_tags_of_optional_methods_follow_from_the_class():
    class Own(BaseTask):
        def marginals(self, batch, w, temperature):
            return []

    assert Own.tags.marginals
    assert not Own.tags.scores
    assert not BaseTask.tags.marginals


def test_other_objects_are_no_tasks():
    for wrong in (Chain, "chain", None, object()):
        with raises("task", got=wrong):
            StructuralSVM(wrong).fit([[[1.0]]], [["a"]])


def test_a_sum_where_single_slopes_are_needed_is_refused():
    class Summed(Multiclass):
        def pool_batch(self, batch, query):
            return super().pool_batch(batch, replace(query, weights=np.ones(batch.n_examples)))

    task = Summed()
    task.learn(np.eye(3), [0, 1, 2])
    batch = task.prepare(np.eye(3), [0, 1, 2])
    with raises("Summed.pool_batch", expected="Slopes and an array of losses"):
        task.planes(batch, np.zeros(task.n_features), "free", Temperature(1.0, 1.0))
