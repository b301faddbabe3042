"""Constraints of parameters and the fields of the errors that they raise."""

import math
import pickle
from typing import ClassVar

import numpy as np
import pytest

from error_fields import raises
from latentstruct.core.validation import (
    as_reals,
    boolean,
    check_parameters,
    check_shape,
    function,
    instance,
    integer,
    integers_of,
    options,
    real,
)
from latentstruct.exceptions import CheckpointError, Description, FormatError, InputError


@pytest.mark.parametrize(
    ("constraint", "expected", "good", "bad"),
    [
        (integer(1), "an integer of at least 1", [1, np.int64(7)], [0, 1.0, True, "1", None, np.ones(1)]),
        (integer(0, 5), "an integer from 0 to 5", [0, 5], [-1, 6]),
        (integer(1) | None, "an integer of at least 1 or None", [None, 3], [0]),
        (real(), "a finite number", [-1.5, 3, np.float32(2)], [math.inf, math.nan, 10**400, True, "1"]),
        (real(0.0), "a finite number above 0", [1e-300, 1], [0, -1, math.inf]),
        (real(0.0, closed="left"), "a finite number of at least 0", [0, 2.5], [-1e-300, math.inf]),
        (real(0.0, closed="right"), "a number above 0", [1, math.inf], [0, math.nan]),
        (real(0.0, 1.0), "a number above 0 and below 1", [0.5], [0, 1]),
        (real(0.0, 1.0, closed="both"), "a number of at least 0 and at most 1", [0, 1], [-0.1, 1.1]),
        (options("a", "b"), "'a' or 'b'", ["a"], ["c", ["a"], np.array(["a", "b"]), None]),
        (options("a", "b") | integer(2), "'a', 'b' or an integer of at least 2", ["b", 2], [1, "c"]),
        (boolean, "True or False", [True, False, 1, 0.0, np.True_], [2, "yes", None, np.ones(2)]),
        (function, "a function", [len], [3]),
        (instance("a list", list), "a list", [[]], [()]),
    ],
)
def test_constraints(constraint, expected, good, bad):
    assert constraint.expected == expected
    for value in good:
        constraint.check(value, "name")
    for value in bad:
        with raises("name", expected=expected) as caught:
            constraint.check(value, "name")
        assert caught.value.got is value


class Base:
    constraints: ClassVar = {"size": integer(1), "mode": options("a")}

    def __init__(self, size=1, mode="a", share=0.5):
        self.size, self.mode, self.share = size, mode, share


class Wider(Base):
    constraints: ClassVar = {"mode": options("a", "b"), "share": real(0.0, 1.0)}


def test_tables_of_base_classes_are_extended():
    check_parameters(Wider(mode="b"))
    with raises("mode", got="b"):
        check_parameters(Base(mode="b"))
    for wrong in ({"size": 0}, {"mode": "c"}, {"share": 1.0}):
        with raises(*wrong):
            check_parameters(Wider(**wrong))


def test_shapes_and_integers():
    check_shape(np.zeros((2, 3)), (2, 3), "X")
    with raises("X", got="shape (2, 3)", expected="an array of shape (2,) (one per example)"):
        check_shape(np.zeros((2, 3)), (2,), "X", "one per example")
    assert integers_of([1.0, 2.0], "groups").dtype == np.int64
    assert integers_of([], "groups").tolist() == []
    for wrong in ([0.5], ["a"], [math.nan], [1e300], [None]):
        with raises("groups", got=repr(wrong), expected="integers"):
            integers_of(wrong, "groups")


@pytest.mark.parametrize(
    ("values", "description"),
    [
        (None, "None"),
        ([1j], "complex numbers"),
        (["1"], "text such as '1'"),
        ([[1.0], [1.0, 2.0]], "rows of different lengths"),
        (np.ma.array([1.0], mask=[True]), "masked values"),
        ([{}], "[{}]"),
    ],
)
def test_values_that_are_not_real_numbers_are_described(values, description):
    with pytest.raises(TypeError) as caught:
        as_reals(values)
    assert str(caught.value) == description


@pytest.mark.parametrize(
    "error",
    [
        InputError("C", 0, "a finite number above 0", "Use 1."),
        FormatError("data.txt", Description("3 columns"), "4 columns", line=7),
        CheckpointError("checkpoint", Description("no space"), "a file that can be written"),
    ],
)
def test_errors_can_be_sent_to_other_processes(error):
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy)) == (type(error), str(error))
    assert (copy.parameter, copy.got, copy.expected, copy.hint) == (
        error.parameter,
        error.got,
        error.expected,
        error.hint,
    )


def test_parameters_are_rendered_as_options():
    error = InputError("max_iter", 0, "at least `min_iterations`", "Or leave out `restarts`.")
    options_of = {"max_iter": "--max-iter", "restarts": "--restarts"}
    expected = "--max-iter must be at least `min_iterations`, got 0. Or leave out --restarts."
    assert error.render(options_of.get) == expected
    # A hint about a parameter that the command does not have is of no use there.
    assert error.render({"max_iter": "--max-iter"}.get) == "--max-iter must be at least `min_iterations`, got 0"
    assert str(error).startswith("`max_iter` must be")
