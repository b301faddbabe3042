"""Programs as JSON lines: variables with features, bounds and values, and linear constraints between them."""

import math
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import numpy as np

from latentstruct.core.lazy import sparse
from latentstruct.exceptions import Description, FormatError
from latentstruct.io.json_lines import read_records, write_records
from latentstruct.io.text import FilePath, Source
from latentstruct.tasks.program.inputs import ProgramInput, ProgramOutput


class VariableRecord(msgspec.Struct, forbid_unknown_fields=True):
    """One variable: its features, its value if it is known, its bounds, and what a wrong value costs."""

    features: dict[str, float] = {}
    value: float | None = None
    lower: float | None = 0.0
    upper: float | None = 1.0
    integer: bool = True
    weight: float = 1.0


class ConstraintRecord(msgspec.Struct, forbid_unknown_fields=True):
    """One constraint: coefficients of variables, and bounds of their sum, null for none."""

    terms: dict[str, float]
    lower: float | None = None
    upper: float | None = None
    name: str | None = None


class ProgramRecord(msgspec.Struct, forbid_unknown_fields=True):
    """One example."""

    variables: dict[str, VariableRecord]
    constraints: list[ConstraintRecord] = []

    def input(self, columns: dict[str, int]) -> ProgramInput:
        """Return the program; features without a column are left out."""
        variables, number = list(self.variables.values()), {name: j for j, name in enumerate(self.variables)}
        found = [
            (j, columns[name], value)
            for j, one in enumerate(variables)
            for name, value in one.features.items()
            if name in columns
        ]
        terms = [(r, number[j], a) for r, row in enumerate(self.constraints) for j, a in row.terms.items()]
        return ProgramInput(
            _matrix(found, (len(variables), len(columns))),
            _matrix(terms, (len(self.constraints), len(variables))),
            _bounds((row.lower for row in self.constraints), -math.inf),
            _bounds((row.upper for row in self.constraints), math.inf),
            _bounds((one.lower for one in variables), -math.inf),
            _bounds((one.upper for one in variables), math.inf),
            [one.integer for one in variables],
            list(self.variables),
            [f"{r}" if row.name is None else row.name for r, row in enumerate(self.constraints)],
        )

    def output(self) -> ProgramOutput:
        """Return the known values of the variables and their weights."""
        variables = self.variables.values()
        return ProgramOutput(_bounds((one.value for one in variables), math.nan), [one.weight for one in variables])


def _bounds(values: Iterable[float | None], missing: float) -> Any:
    return np.array([missing if value is None else value for value in values], dtype=np.float64)


def _matrix(entries: Sequence[tuple[int, int, float]], shape: tuple[int, int]) -> Any:
    rows, columns, values = zip(*entries, strict=True) if entries else ((), (), ())
    places = np.array(rows, dtype=np.int64), np.array(columns, dtype=np.int64)
    return sparse.csr_array((np.array(values, dtype=np.float64), places), shape=shape)


def read_programs(path: FilePath, labeled: bool = True) -> list[ProgramRecord]:
    """Read programs; with `labeled`, at least one value must be known.

    Raises
    ------
    FormatError
        For the first line that is no program, or uses variables that it does not declare.
    """
    source, found = Source.open(path), []
    for record in read_records(source, ProgramRecord, "variables and constraints"):
        if not record.variables:
            raise FormatError(source.name, Description("none"), "at least one variable", line=source.line)
        for r, row in enumerate(record.constraints):
            for name in row.terms:
                if name not in record.variables:
                    got = Description(f"the variable {name!r} in constraints[{r}]")
                    raise FormatError(source.name, got, "variables that are declared", line=source.line)
        found.append(record)
    if not found:
        raise FormatError(source.name, Description("none"), "programs, one per line")
    if labeled and all(one.value is None for record in found for one in record.variables.values()):
        raise FormatError(source.name, Description("none"), "variables with a known value")
    return found


def write_values(path: FilePath, records: Sequence[ProgramRecord], values: Sequence[Any]) -> None:
    """Write the values of all variables, one line per program."""
    found = zip(records, values, strict=True)
    write_records(path, [{"values": dict(zip(record.variables, y.tolist(), strict=True))} for record, y in found])
