"""Report of programs: the values of variables that differ."""

from typing import Any

import numpy as np

from latentstruct import io
from latentstruct.cli.kind import Trained
from latentstruct.viz.plots.features import shorten
from latentstruct.viz.report.blocks import Examples, TableBlock

MOST_VARIABLES = 60


def examples(model: Trained, records: "list[io.ProgramRecord]", found: list[Any]) -> Examples:
    """Return predicted values, with the share of known ones that are wrong."""
    found = [values.tolist() for values in found]
    wrong, known = [], []
    for record, values in zip(records, found, strict=True):
        pairs = list(zip((one.value for one in record.variables.values()), values, strict=True))
        known.append(sum(truth is not None for truth, _ in pairs))
        wrong.append(sum(truth not in (None, y) for truth, y in pairs))
    return Examples(
        [f"program {i}" for i in range(1, len(records) + 1)],
        np.array(wrong) / np.maximum(known, 1),
        "share of wrong values",
        [f"{bad} of {size} known values are wrong" for bad, size in zip(wrong, known, strict=True)],
        lambda i: [_values(records[i], found[i])],
    )


def _values(record: "io.ProgramRecord", values: list[Any]) -> TableBlock:
    """Return the variables that are not 0, or wrong."""
    rows = [
        [shorten(name), "?" if one.value is None else f"{one.value:g}", f"{y:g}"]
        for (name, one), y in zip(record.variables.items(), values, strict=True)
        if y != 0 or one.value not in (None, 0)
    ]
    more = f" {len(rows) - MOST_VARIABLES} further ones are not shown." if len(rows) > MOST_VARIABLES else ""
    note = f"Variables whose true or predicted value is not 0; ? is unknown.{more}"
    return TableBlock("Values", ("variable", "true", "predicted"), rows[:MOST_VARIABLES], note)
