"""Solve the tasks of the UAI inference competitions."""

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass
from typing import TYPE_CHECKING, Any, Literal

from latentstruct import io
from latentstruct.cli.common import NOTHING, STANDARD_STREAM, check_one_stream, check_output
from latentstruct.cli.declaring import argument, json_option, option, output_file_option
from latentstruct.cli.packing import lines_as_bytes
from latentstruct.core.lazy import np
from latentstruct.core.memory import available
from latentstruct.exceptions import Description, InputError
from latentstruct.progress.display import print_json, printed_warnings, say
from latentstruct.progress.heartbeat import each

if TYPE_CHECKING:
    from latentstruct.core.protocols import Temperature
    from latentstruct.inference.elimination import Elimination
    from latentstruct.inference.pruning import Pruned
    from latentstruct.inference.structure import Beliefs

SIDE = 4
"""Of the grid in the example."""
GIGABYTE = 2**30
SHARE = 0.25
"""Share of the free memory that exact inference may use by default."""
MOST_MEMORY = 8 * GIGABYTE
"""Most memory that exact inference uses by default: larger tables take minutes."""
ENTRY = 16
"""Bytes per entry of a table, with its messages."""
MOST_REST_ENTRIES = 2**24
"""The largest table for the states that bounds of MAP leave."""
MOST_ENTRIES = 2**26
"""The largest table that a limit of the width alone allows: half a gigabyte."""


UaiTask = Literal["PR", "MAR", "MAP", "MMAP"]
Wide = Literal["bounds", "propagation", "toulbar2"]


@dataclass(frozen=True)
class Limits:
    """Limits of exact inference, by memory in bytes, the largest table or the width, and whether it must be exact."""

    memory: float
    max_entries: int | None = None
    width: int | None = None
    exact: bool = False

    @property
    def by_memory(self) -> bool:
        """Whether memory is the only limit."""
        return self.max_entries is None and self.width is None

    def entries(self, cards: Sequence[int]) -> int:
        """Return the largest table that is allowed."""
        if self.width is None:
            return max(1, int(self.memory // ENTRY)) if self.max_entries is None else self.max_entries
        widest = sorted(cards, reverse=True)[: self.width + 1]
        return min(math.prod(widest), MOST_ENTRIES)

    def allow(self, plan: Any) -> bool:
        """Return whether the elimination of one graph stays within the limits."""
        if self.by_memory and plan.totals[0] * ENTRY > self.memory:
            return False
        return bool(plan.feasible[0]) and (self.width is None or bool(plan.widths[0] <= self.width))

    def exceeded(self, plan: Any) -> tuple[str, str]:
        """Return the limit that an elimination exceeds, and how to raise it."""
        if self.by_memory:
            needed, allowed = int(plan.totals[0]) * ENTRY / GIGABYTE, self.memory / GIGABYTE
            has = "needs" if plan.feasible[0] else "needs more than"
            found = f"the best order found has width {plan.widths[0]} and {has} {needed:.3g} GB"
            return f"{found}, and --max-memory is {allowed:.3g}", "Raise --max-memory"
        if self.width is not None and plan.widths[0] > self.width:
            has = "has" if plan.feasible[0] else "reaches"
            found = f"the best order found {has} width {plan.widths[0]} and a table of {plan.entries[0]} entries"
            return f"{found}, and --max-width is {self.width}", "Raise --max-width"
        name = "--max-entries" if self.width is None else f"the largest table for --max-width {self.width}"
        found, needed = plan.excess(0, name)
        instead = "" if self.width is None else " instead of --max-width"
        return found, f"Pass --max-entries {needed} or more{instead}"


@dataclass(frozen=True, eq=False)
class Answer:
    """The solution of a task for one sample of evidence.

    `value` is the natural logarithm of the partition function (PR, MAR), of the weight of the best assignment (MAP),
    or of the best sum (MMAP); −inf if nothing is possible. `exceeded` is why it is not found by elimination; the value
    for the best weights is then between `lower` and `upper`.
    """

    solution: Any
    value: float
    lower: float
    upper: float
    exact: bool
    converged: bool
    exceeded: str | None


@dataclass(frozen=True, kw_only=True)
class InferOptions:
    """Solve a task of the UAI competitions for a Markov or Bayesian network, with input and output in their formats.

    Inference is exact, by elimination, if the width allows it. Otherwise it uses belief propagation and local search;
    bounds of the result are then reported on standard error.

    Impossible evidence has the partition function 0: PR is -inf, all marginals are written as 0.

    With several samples of evidence there is one solution per sample, after their number.

    Example: latentstruct infer grid.uai --evidence grid.uai.evid --task MAR -o grid.uai.MAR
    """

    model: str = argument("Model in the UAI format; - is standard input.")
    task: UaiTask = option(
        MISSING,
        "PR: log10 of the partition function; MAR: marginals; MAP: best states; MMAP: best states of the query, the "
        "other variables summed out.",
        metavar="NAME",
    )
    evidence: str | None = option(None, "Observed variables and their states.", metavar="FILE")
    query: str | None = option(None, "MMAP: the variables to maximize over.", metavar="FILE")
    max_memory: float | None = option(
        None, "Gigabytes for exact inference.", shown="a quarter of the free memory, at most 8", min=0.0
    )
    max_entries: int | None = option(
        None, "Limit exact inference by the entries of the largest table instead.", shown="no limit", min=1
    )
    width: int | None = option(
        None, "Limit exact inference by the width instead; that of a tree is 1.", "--max-width", min=0
    )
    exact: bool = option(False, "Fail if the limit is exceeded, instead of an approximation.")
    wide: Wide = option(
        "bounds",
        "Models beyond the limit. bounds: belief propagation and, but for MMAP, bounds of the value; propagation: no "
        "bounds; toulbar2: MAP by branch and bound.",
        metavar="NAME",
    )
    bound_entries: int = option(2**10, "Largest table for bounds; larger ones are tighter and slower.", min=1)
    max_seconds: float | None = option(None, "CPU time of toulbar2 in seconds.", shown="no limit")
    natural: bool = option(False, "The tables hold natural logarithms.", sets="scale")
    log10: bool = option(False, "The tables hold logarithms to base 10.")
    output: str = output_file_option()
    json: bool = json_option()

    def check(self) -> None:
        """Raise before anything is read if options contradict each other."""
        if self.max_entries is not None and self.width is not None:
            raise InputError("width", self.width, "left out with `max_entries`")
        if self.max_memory is not None and (self.max_entries is not None or self.width is not None):
            other = "width" if self.max_entries is None else "max_entries"
            raise InputError("max_memory", self.max_memory, f"left out with `{other}`")
        if self.natural and self.log10:
            raise InputError("log10", True, "left out with `natural`")
        if self.task == "MMAP" and self.query is None:
            raise InputError("query", NOTHING, "a file with the variables to maximize over for `task` MMAP")
        if self.task != "MMAP" and self.query is not None:
            raise InputError("query", self.query, f"left out for `task` {self.task}")
        if self.wide == "toulbar2" and self.task != "MAP":
            raise InputError("wide", self.wide, "'bounds' or 'propagation' for other tasks than MAP")
        if self.max_seconds is not None and self.wide != "toulbar2":
            raise InputError("max_seconds", self.max_seconds, "left out unless `wide` is toulbar2")
        if self.max_seconds is not None and not self.max_seconds > 0:
            raise InputError("max_seconds", self.max_seconds, "a number above 0")
        check_one_stream(model=self.model, evidence=self.evidence, query=self.query)
        check_output(self.output, [name for name in (self.model, self.evidence, self.query) if name is not None])

    @property
    def scale(self) -> Literal["natural", "log10"] | None:
        """The scale of the tables."""
        return "natural" if self.natural else "log10" if self.log10 else None


def infer(options: InferOptions) -> None:
    """Solve a task and write the solution."""
    options.check()
    free = min(SHARE * available(), MOST_MEMORY)
    memory = free if options.max_memory is None else options.max_memory * GIGABYTE
    limits = Limits(memory, options.max_entries, options.width, options.exact)
    with printed_warnings(say):
        network = io.read_uai(options.model, options.scale)
        samples = [{}] if options.evidence is None else io.read_uai_evidence(options.evidence, network.cards)
    query = None if options.query is None else io.read_uai_query(options.query, len(network.cards))
    answers = []
    for k, observed in enumerate(each(samples, len(samples), "samples solved"), 1):
        answers.append(solve(network, options, observed, query, limits))
        say_remarks(
            answers[-1], f"sample {k}: " if len(samples) > 1 else "", bool(observed), options.task, options.wide
        )
    if not options.json or options.output != STANDARD_STREAM:
        io.write_uai_solutions(options.output, io.UaiSolutions(options.task, [answer.solution for answer in answers]))
        sys.stdout.flush()
    if options.json:
        sizes = {"n_variables": len(network.cards), "n_factors": len(network.scopes)}
        solved = {"model": options.model, "task": options.task, **sizes}
        print_json({**solved, "answers": [describe(answer) for answer in answers]})


def solve(
    model: "io.UaiModel",
    options: InferOptions,
    observed: Mapping[int, int],
    query: Sequence[int] | None,
    limits: Limits,
) -> Answer:
    """Solve a task given the observed states of some variables; `query` are those to maximize over, for MMAP."""
    from latentstruct.core.protocols import Temperature
    from latentstruct.inference.conditioning import Conditioned
    from latentstruct.inference.elimination import Elimination
    from latentstruct.inference.pruning import Pruned

    task = options.task
    structure, unary, tables = model.structure()
    states = np.zeros(len(model.cards), dtype=np.int64)
    fixed = np.zeros(len(model.cards), dtype=np.bool_)
    hidden = np.full(len(model.cards), task != "MAP")
    for variable, state in observed.items():
        states[variable], fixed[variable] = state, True
    hidden[list(query or [])] = False
    given = Conditioned(structure, fixed)
    *whole, constants = given.reduce(unary, tables, states)
    temperature = Temperature(0.0 if task in ("MAP", "MMAP") else 1.0, 0.0 if task == "MAP" else 1.0)
    pruned = Pruned(given.rest, whole[0], whole[1])
    plan = Elimination(pruned.rest, hidden[given.free], max_entries=limits.entries(pruned.rest.cards.tolist()))
    if limits.allow(plan):
        exceeded, found = None, plan.run(pruned.unary, pruned.tables, temperature)
        lower = upper = float(found.values[0])
    else:
        exceeded = check_limits(plan, limits)
        found, lower, upper = approximate(pruned, plan, temperature, options)
    beliefs = given.spread(pruned.spread(found), states, constants=constants)
    solution = read_solution(beliefs, task, model, query)
    constant = float(constants[0])
    return Answer(
        solution,
        float(beliefs.values[0]),
        lower + constant,
        upper + constant,
        bool(beliefs.exact[0]),
        bool(beliefs.converged[0]),
        exceeded,
    )


def check_limits(plan: Any, limits: Limits) -> str:
    """Return the limit that an elimination exceeds; raise InputError if it must be exact."""
    exceeded, cure = limits.exceeded(plan)
    if limits.exact:
        hint = f"{cure}, observe more variables, or leave out `exact` for an approximation with bounds."
        raise InputError("model", Description(exceeded), "small enough for exact inference", hint)
    return exceeded


def approximate(
    graph: "Pruned", plan: "Elimination", temperature: "Temperature", options: InferOptions
) -> tuple["Beliefs", float, float]:
    """Return the beliefs of a graph that is too wide for elimination, with a lower and an upper bound of the value."""
    from latentstruct.inference.ascent import is_proved
    from latentstruct.inference.propagation import Propagation

    structure, unary, tables = graph.rest, graph.unary, graph.tables
    found = Propagation(structure, plan.hidden, max_entries=plan.max_entries).run(unary, tables, temperature)
    if options.wide == "propagation" or options.task == "MMAP":
        return found, -math.inf, math.inf
    if options.wide == "toulbar2":
        from latentstruct.inference.toulbar2 import maximize

        bounds = maximize(structure, unary, tables, options.max_seconds)
    else:
        from latentstruct.inference.bounds import BoundedInference

        engine = BoundedInference(
            structure, options.bound_entries, max_rest_entries=min(plan.max_entries, MOST_REST_ENTRIES)
        )
        bounds = engine.run(unary, tables, temperature.output, starts=[found.states])
    if options.task == "MAP":
        if bounds.lower > -math.inf:
            found.values[:], found.states[:] = bounds.lower, bounds.states
        found.exact[:] = is_proved(bounds.lower, bounds.gap)
    else:
        found.values.clip(bounds.lower, bounds.upper, out=found.values)
    return found, bounds.lower, bounds.upper


def read_solution(beliefs: "Beliefs", task: UaiTask, model: "io.UaiModel", query: Sequence[int] | None) -> Any:
    """Return the contents of the solution file."""
    if task == "PR":
        return float(beliefs.values[0]) / math.log(10.0)
    if task == "MAR":
        return np.split(np.clip(beliefs.unary, 0.0, 1.0), np.cumsum(model.cards)[:-1]) if len(model.cards) else []
    if task == "MAP":
        return beliefs.states.tolist()
    return {variable: int(beliefs.states[variable]) for variable in query or []}


def say_remarks(answer: Answer, where: str, with_evidence: bool, task: UaiTask, wide: Wide) -> None:
    """Print on standard error what the solution format cannot hold."""
    if answer.exceeded is not None:
        rest = "converged" if answer.converged else "did not converge"
        used = "maximized by toulbar2" if wide == "toulbar2" else f"belief propagation {rest}"
        say(f"{where}too wide for elimination: {answer.exceeded}; {used}")
    if answer.exceeded is not None or task == "MAP":
        say(f"{where}{describe_bounds(answer, task)}")
    if answer.value == -math.inf and answer.exact:
        subject = "the evidence is impossible" if with_evidence else "the model allows nothing"
        say(f"{where}{subject}: every assignment has weight 0")
    elif answer.value == -math.inf:
        say(f"{where}no assignment of positive weight was found; there may still be one")


def describe_bounds(answer: Answer, task: UaiTask) -> str:
    """Return a description of the bounds of an answer."""
    base = math.log(10.0)
    value, lower, upper = (number / base for number in (answer.value, answer.lower, answer.upper))
    if answer.exact:
        return f"log10 of the weight {value:.6g}, proved to be the largest"
    if task == "MAP" and upper < math.inf:
        return f"log10 of the weight {value:.6g}, at most {upper:.6g} is possible: gap {upper - value:.2g}"
    if upper == math.inf:
        return f"log10 {value:.6g}, without bounds"
    return f"log10 {value:.6g}, between {lower:.6g} and {upper:.6g}"


def describe(answer: Answer) -> dict[str, Any]:
    """Return a solution for JSON, where the logarithm of 0 is null."""
    return {
        "solution": answer.solution,
        "log10_value": answer.value / math.log(10.0),
        "natural_log_value": answer.value,
        "log10_bounds": [answer.lower / math.log(10.0), answer.upper / math.log(10.0)],
        "possible": answer.value > -math.inf,
        "exact": answer.exact,
        "converged": answer.converged,
    }


def make_example(seed: int) -> bytes:
    """Return a grid of 4 × 4 variables with two states each, whose neighbors tend to agree, in the UAI format."""
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
