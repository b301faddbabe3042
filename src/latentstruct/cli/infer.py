"""Answer the tasks of the UAI inference competitions."""

import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from latentstruct.cli.common import STANDARD_STREAM, check_one_stream, check_output, reported_errors
from latentstruct.cli.options import JsonOption, OutputFileOption
from latentstruct.cli.packing import lines_as_bytes
from latentstruct.exceptions import InputError
from latentstruct.progress.display import print_json, say
from latentstruct.progress.heartbeat import each

if TYPE_CHECKING:
    from latentstruct.inference.structure import Beliefs
    from latentstruct.io import UaiModel

SIDE = 4
"""Of the grid that is the example."""
MAX_ENTRIES = 2**20
MOST_ENTRIES = 2**26
"""The largest table that a limit of the width alone allows: half a gigabyte."""


class UaiTask(StrEnum):
    """What is asked."""

    PR = "PR"
    MAR = "MAR"
    MAP = "MAP"
    MMAP = "MMAP"


@dataclass(frozen=True)
class Limits:
    """How large exact inference may become, by the largest table or by the width, and whether it must be exact."""

    max_entries: int | None = None
    width: int | None = None
    exact: bool = False

    def entries(self, cards: Sequence[int]) -> int:
        """Return the largest table that is allowed."""
        if self.width is None:
            return MAX_ENTRIES if self.max_entries is None else self.max_entries
        widest = sorted(cards, reverse=True)[: self.width + 1]
        return min(math.prod(widest), MOST_ENTRIES)

    def allow(self, plan: Any) -> bool:
        """Tell whether the elimination of one graph stays within the limits."""
        return bool(plan.feasible[0]) and (self.width is None or bool(plan.widths[0] <= self.width))

    def exceeded(self, plan: Any) -> tuple[str, str]:
        """Tell which limit an elimination exceeds, and how to raise it."""
        if self.width is not None and plan.widths[0] > self.width:
            has = "has" if plan.feasible[0] else "reaches"
            found = f"the best order found {has} width {plan.widths[0]} and a table of {plan.entries[0]} entries"
            return f"{found}, and --max-width is {self.width}", "raise --max-width"
        name = "--max-entries" if self.width is None else f"the largest table for --max-width {self.width}"
        found, needed = plan.excess(0, name)
        instead = "" if self.width is None else " in place of --max-width"
        return found, f"give --max-entries {needed} or more{instead}"


@dataclass(frozen=True, eq=False)
class Answer:
    """The answer to a task for one sample of evidence.

    `value` is the natural logarithm of the partition function (PR, MAR), of the weight of the best assignment (MAP),
    or of the best sum (MMAP); −inf if nothing is possible. `exceeded` tells why it is not exact.
    """

    solution: Any
    value: float
    exact: bool
    converged: bool
    exceeded: str | None


@reported_errors()
def infer(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="Model in the UAI format; - is standard input.")],
    task: Annotated[
        UaiTask,
        typer.Option(
            metavar="NAME",
            case_sensitive=False,
            help="PR: log10 of the partition function; MAR: marginals; MAP: best states; MMAP: best states of the "
            "query, the other variables summed out.",
        ),
    ],
    evidence: Annotated[str | None, typer.Option(metavar="FILE", help="Observed variables and their states.")] = None,
    query: Annotated[str | None, typer.Option(metavar="FILE", help="MMAP: the variables to maximise over.")] = None,
    max_entries: Annotated[
        int | None,
        typer.Option(
            min=1,
            show_default=str(MAX_ENTRIES),
            help="Largest table for exact inference; beyond it, belief propagation.",
        ),
    ] = None,
    width: Annotated[
        int | None, typer.Option("--max-width", min=0, help="Limit exact inference by the width instead; trees have 1.")
    ] = None,
    exact: Annotated[
        bool, typer.Option("--exact", help="Fail if the limit is exceeded, instead of an estimate.")
    ] = False,
    natural: Annotated[bool, typer.Option("--natural", help="The tables hold natural logarithms.")] = False,
    log10: Annotated[bool, typer.Option("--log10", help="The tables hold logarithms to the base 10.")] = False,
    output: OutputFileOption = STANDARD_STREAM,
    json: JsonOption = False,
) -> None:
    """Answer a task of the UAI competitions for a Markov or Bayesian network, in and out in their formats.

    Exact by elimination where the width allows it; else an estimate by belief propagation, which standard error tells.

    Impossible evidence has the partition function 0: PR is -inf, all marginals are written as 0.

    With several samples of evidence there are as many answers, after their number.

    Example: latentstruct infer grid.uai --evidence grid.uai.evid --task MAR -o grid.uai.MAR
    """
    from latentstruct.io import UaiSolutions, read_uai, read_uai_evidence, read_uai_query, write_uai_solutions

    limits = Limits(max_entries, width, exact)
    check_request(task, [model, evidence, query], output, limits, natural and log10)
    with named_scales():
        network = read_uai(model, "natural" if natural else "log10" if log10 else None)
    samples = [{}] if evidence is None else read_uai_evidence(evidence, network.cards)
    asked = None if query is None else read_uai_query(query, len(network.cards))
    answers = []
    for k, observed in enumerate(each(samples, len(samples), "samples answered"), 1):
        answers.append(solve(network, task, observed, asked, limits))
        tell(answers[-1], f"sample {k}: " if len(samples) > 1 else "", bool(observed))
    if not json or output != STANDARD_STREAM:
        write_uai_solutions(output, UaiSolutions(task.value, [answer.solution for answer in answers]))
        sys.stdout.flush()
    if json:
        sizes = {"n_variables": len(network.cards), "n_factors": len(network.scopes)}
        print_json({"model": model, "task": task.value, **sizes, "answers": [describe(answer) for answer in answers]})


def check_request(task: UaiTask, files: Sequence[str | None], output: str, limits: Limits, two_scales: bool) -> None:
    """Raise before anything is read if the options do not fit together."""
    query = files[-1]
    if limits.max_entries is not None and limits.width is not None:
        raise InputError("--max-entries and --max-width are both given; expected one limit: leave one of them out")
    if two_scales:
        raise InputError("--natural and --log10 are both given; expected one: leave one of them out")
    if task is UaiTask.MMAP and query is None:
        raise InputError("--query is missing; expected the file with the variables to maximise over: give it")
    if task is not UaiTask.MMAP and query is not None:
        raise InputError(f"--query is for --task MMAP only, and the task is {task.value}: leave it out")
    given = [name for name in files if name is not None]
    check_one_stream(*given)
    check_output(output, given)


@contextmanager
def named_scales() -> Iterator[None]:
    """Let errors name the options of the scales."""
    from latentstruct.io.uai import ASK_FOR_SCALE

    try:
        yield
    except InputError as error:
        raise type(error)(str(error).replace(ASK_FOR_SCALE, "give --natural or --log10")) from error


def solve(
    model: "UaiModel", task: UaiTask, observed: Mapping[int, int], query: Sequence[int] | None, limits: Limits
) -> Answer:
    """Answer a task given the observed states of some variables; `query` are those to maximize over, for MMAP."""
    import numpy as np

    from latentstruct.core.protocols import Temperature
    from latentstruct.inference.conditioning import Conditioned

    structure, unary, tables = model.structure()
    states = np.zeros(len(model.cards), dtype=np.int64)
    fixed = np.zeros(len(model.cards), dtype=np.bool_)
    hidden = np.full(len(model.cards), task is not UaiTask.MAP)
    for variable, state in observed.items():
        states[variable], fixed[variable] = state, True
    hidden[list(query or [])] = False
    given = Conditioned(structure, fixed)
    rest_unary, rest_tables, constants = given.reduce(unary, tables, states)
    temperature = Temperature(0.0 if task in (UaiTask.MAP, UaiTask.MMAP) else 1.0, 0.0 if task is UaiTask.MAP else 1.0)
    found, exceeded = pool(given.rest, hidden[given.free], rest_unary, rest_tables, temperature, limits)
    beliefs = given.spread(found, states, constants=constants)
    solution = read_solution(beliefs, task, model, query)
    return Answer(solution, float(beliefs.values[0]), bool(beliefs.exact[0]), bool(beliefs.converged[0]), exceeded)


def pool(
    structure: Any, hidden: Any, unary: Any, tables: Any, temperature: Any, limits: Limits
) -> tuple["Beliefs", str | None]:
    """Return the beliefs of one graph, and why they are not exact where they are not."""
    from latentstruct.inference.elimination import Elimination

    plan = Elimination(structure, hidden, max_entries=limits.entries(structure.cards.tolist()))
    if limits.allow(plan):
        return plan.run(unary, tables, temperature), None
    exceeded, cure = limits.exceeded(plan)
    if limits.exact:
        raise InputError(
            f"exact inference is too large: {exceeded}; expected less: {cure}, observe more variables, "
            "or leave out --exact for an estimate by belief propagation"
        )
    from latentstruct.inference.propagation import Propagation

    return Propagation(structure, hidden, max_entries=plan.max_entries).run(unary, tables, temperature), exceeded


def read_solution(beliefs: "Beliefs", task: UaiTask, model: "UaiModel", query: Sequence[int] | None) -> Any:
    """Return what the solution's file holds."""
    import numpy as np

    if task is UaiTask.PR:
        return float(beliefs.values[0]) / math.log(10.0)
    if task is UaiTask.MAR:
        return np.split(np.clip(beliefs.unary, 0.0, 1.0), np.cumsum(model.cards)[:-1]) if len(model.cards) else []
    if task is UaiTask.MAP:
        return beliefs.states.tolist()
    return {variable: int(beliefs.states[variable]) for variable in query or []}


def tell(answer: Answer, where: str, with_evidence: bool) -> None:
    """Tell on standard error what the solution's format has no place for."""
    if not answer.exact:
        rest = "the messages came to rest" if answer.converged else "the messages did not come to rest"
        say(f"{where}an estimate by belief propagation ({rest}), as {answer.exceeded}")
    if answer.value == -math.inf and answer.exact:
        subject = "the evidence is impossible" if with_evidence else "the model allows nothing"
        say(f"{where}{subject}: every assignment has weight 0")
    elif answer.value == -math.inf:
        say(f"{where}belief propagation found no assignment of positive weight; there may be one all the same")


def describe(answer: Answer) -> dict[str, Any]:
    """Return an answer for JSON, where the logarithm of 0 is null."""
    return {
        "solution": answer.solution,
        "log10_value": answer.value / math.log(10.0),
        "natural_log_value": answer.value,
        "possible": answer.value > -math.inf,
        "exact": answer.exact,
        "converged": answer.converged,
    }


def make_example(seed: int) -> bytes:
    """Return a grid of 4 × 4 variables with two states each, whose neighbours like to agree, in the UAI format."""
    import numpy as np

    rng = np.random.default_rng(seed)
    number = np.arange(SIDE * SIDE).reshape(SIDE, SIDE)
    across, down = (number[:, :-1], number[:, 1:]), (number[:-1], number[1:])
    edges = [pair for ends in (across, down) for pair in zip(*(part.ravel().tolist() for part in ends), strict=True)]
    fields = rng.uniform(0.3, 1.7, size=number.size)
    bonds = rng.uniform(1.2, 2.5, size=len(edges))
    lines = ["MARKOV", str(number.size), " ".join(["2"] * number.size), str(number.size + len(edges))]
    lines += [f"1 {k}" for k in range(number.size)] + [f"2 {a} {b}" for a, b in edges]
    for value in fields:
        lines += ["", "2", f" {value:.3f} {2 - value:.3f}"]
    for value in bonds:
        lines += ["", "4", f" {value:.3f} 1.000", f" 1.000 {value:.3f}"]
    return lines_as_bytes(lines)
