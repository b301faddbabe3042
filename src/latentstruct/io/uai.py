"""Models, evidence, queries and solutions in the formats of the UAI inference competitions.

A model is a factor graph: the kind of network, the numbers of states, the scopes of the factors, then their tables.
Text after # up to the end of a line is a remark. Logarithms in memory are natural.
"""

import math
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from itertools import accumulate, chain
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from latentstruct.core.callers import user_stacklevel
from latentstruct.core.formatting import repr_short, short_repr
from latentstruct.core.types import Indices, Vector
from latentstruct.exceptions import Description, InputError
from latentstruct.io.text import FilePath, fail, numbered_lines, source_name, write_text

if TYPE_CHECKING:
    from latentstruct.inference.structure import FactorGraphs

KINDS = ("MARKOV", "BAYES")
SCALES = {"linear": 0.0, "natural": 1.0, "log10": math.log(10.0)}
"""Scales of tables, and the natural logarithm of the base of their logarithms."""
MOST_STATES = 2**24
"""Most states of variables in addition to those that tables list."""
MOST_VALUES = 10**18
"""Upper bound of the values of a table that a file can state: a number has at most 18 digits."""
FACTORS_SHOWN = 10

_END = Description("the end of the file")
_REMARK = re.compile(rb"#[^\n]*")
_WORD = re.compile(rb"\S+")
_NUMBER = re.compile(rb"[-+.0-9]|inf|nan", re.IGNORECASE)
INTEGER = re.compile(rb"\+?[0-9]{1,18}")
TASKS = ("PR", "MAR", "MAP", "MMAP")
_NEW_SOLUTION = b"-BEGIN-"


@dataclass(frozen=True, eq=False)
class UaiModel:
    """A model of discrete variables: the weight of an assignment x is Π_f exp(table_f(x_f)).

    Parameters
    ----------
    kind : str
        "MARKOV", or "BAYES" where each table is the conditional distribution of the last variable of its scope. Both
        mean the same product.
    cards : ndarray of shape (V,)
        Number of states of each variable.
    scopes : list of F tuples of int
        The variables of each factor; an empty scope is that of a constant.
    tables : list of F ndarrays
        The natural logarithms of the values of each factor, flat in C order: the last variable changes fastest. A zero
        in the file is −inf.
    """

    kind: str
    cards: Indices
    scopes: list[tuple[int, ...]]
    tables: list[Vector]

    __repr__ = short_repr

    def structure(self) -> tuple["FactorGraphs", Vector, Vector]:
        """Return the factor graph with its potentials.

        These are the structure of constants and of factors of two or more variables, the sums of the factors of one
        variable by state, and the tables of the factors of the structure.
        """
        from latentstruct.inference.structure import FactorGraphs

        state_at = np.concatenate([[0], np.cumsum(self.cards)]).astype(np.int64)
        unary = np.zeros(state_at[-1])
        scopes: list[tuple[int, ...]] = []
        tables = [np.zeros(0)]
        for scope, table in zip(self.scopes, self.tables, strict=True):
            if len(scope) == 1:
                unary[state_at[scope[0]] : state_at[scope[0] + 1]] += table
            else:
                scopes.append(scope)
                tables.append(table)
        structure = FactorGraphs(
            cards=np.asarray(self.cards, dtype=np.int64),
            scope_at=np.array([0, *accumulate(map(len, scopes))], dtype=np.int64),
            scopes=np.array(list(chain.from_iterable(scopes)), dtype=np.int64),
            variables_at=np.array([0, len(self.cards)], dtype=np.int64),
            factors_at=np.array([0, len(scopes)], dtype=np.int64),
        )
        return structure, unary, np.concatenate(tables)


class Words:
    """The words of a file, read one by one; the line of a word is determined when an error needs it."""

    def __init__(self, path: FilePath) -> None:
        self.name = source_name(path)
        self.data = _REMARK.sub(b"", b"".join(raw for _, raw in numbered_lines(path)))
        self.words = self.data.split()
        self.at = 0

    @property
    def n_left(self) -> int:
        """The number of unread words."""
        return len(self.words) - self.at

    def fail(self, position: int, expected: str, got: object = None, hint: str | None = None) -> NoReturn:
        """Raise the error of the word at a position, or of the end of the file; `got` is the word by default."""
        start = len(self.data.rstrip())
        for number, match in enumerate(_WORD.finditer(self.data)):
            if number == position:
                start = match.start()
                break
        if got is None:
            got = self.words[position].decode("utf-8", "replace") if position < len(self.words) else _END
        fail(self.name, 1 + self.data.count(b"\n", 0, start), got, expected, hint)

    def next(self, what: str) -> bytes:
        """Return the next word."""
        if not self.n_left:
            self.fail(self.at, what)
        self.at += 1
        return self.words[self.at - 1]

    def integer(self, what: str, low: int = 0, below: int | None = None) -> int:
        """Return the next word as an integer from `low` to `below` − 1."""
        word = self.next(what)
        number = int(word) if INTEGER.fullmatch(word) else -1
        if number < low or (below is not None and number >= below):
            bounds = f"an integer of at least {low}" if below is None else f"an integer from {low} to {below - 1}"
            self.fail(self.at - 1, f"{what}, {bounds if below is None or below > low else 'but there are none'}")
        return number

    def count(self, what: str, words_each: int = 1) -> int:
        """Return a count of items that follow, each of at least `words_each` words."""
        count = self.integer(f"the number of {what}")
        if count * words_each > self.n_left:
            got = Description(f"{count} {what} and {self.n_left} words")
            self.fail(self.at - 1, f"at least {words_each} words after it per item that is counted", got)
        return count

    def end(self, what: str) -> None:
        """Raise if there are unread numbers, and warn of other text."""
        if not self.n_left:
            return
        if _NUMBER.match(self.words[self.at]):
            self.fail(self.at, f"the end of the file after {what}")
        self.ignore(self.n_left, what)

    def ignore(self, n_words: int, what: str) -> None:
        """Warn that words at the end of the file are not read."""
        first = self.words[len(self.words) - n_words].decode("utf-8", "replace")
        warnings.warn(
            f"{self.name}: ignored {n_words} words after {what}, from {repr_short(first)} on",
            stacklevel=user_stacklevel(),
        )

    def real(self, position: int) -> float:
        """Return a word as a number, which may be infinite."""
        word = self.words[position]
        try:
            if b"_" in word:
                raise ValueError
            number = float(word)
        except ValueError:
            number = math.nan
        if math.isnan(number):
            self.fail(position, "a number such as 0.25")
        return number

    def lines(self, first: int) -> list[range]:
        """Return the positions of the words of each line that is not empty, starting at a word."""
        ends = accumulate(len(line.split()) for line in self.data.split(b"\n"))
        rows, start = [], first
        for end in ends:
            if end > start:
                rows.append(range(start, end))
                start = end
        return rows


def read_uai(path: FilePath, scale: str | None = None) -> UaiModel:
    """Read a model.

    Parameters
    ----------
    path : str or path
        The file; decompressed if its name ends in ``.gz``; ``-`` is standard input. It has the word MARKOV or BAYES,
        the number of variables, the number of states of each, the number of factors, the number and the list of
        variables (from 0) of each factor, and the number and the list of values of each factor.
    scale : {"linear", "natural", "log10"}, optional
        Whether values are weights or logarithms of weights; by default weights, or natural logarithms if the kind is
        LOGMARKOV or LOGBAYES. A weight beyond the range of floating point, such as 1e-400, is supported.

    Returns
    -------
    UaiModel
        The model; a weight of 0 is −inf.
    """
    words = Words(path)
    word = words.next("the kind of network, MARKOV or BAYES,").upper()
    kind = word.removeprefix(b"LOG").decode("utf-8", "replace")
    if kind not in KINDS:
        words.fail(0, "the kind of network, MARKOV or BAYES")
    found = _check_scale(("natural" if word.startswith(b"LOG") else "linear") if scale is None else scale)
    n_variables = words.count("variables")
    cards = [words.integer(f"the number of states of variable {v}", low=1) for v in range(n_variables)]
    if sum(cards) > MOST_STATES + len(words.words):
        largest = max(range(n_variables), key=cards.__getitem__)
        words.fail(2 + largest, f"at most {MOST_STATES} states beyond those that tables list")
    n_factors = words.count("factors", words_each=2)
    scopes = [_read_scope(words, f, n_variables) for f in range(n_factors)]
    spans = [_read_table_span(words, f, [cards[v] for v in scope]) for f, scope in enumerate(scopes)]
    words.end("the last table")
    flat = _log_values(words, spans, found)
    ends = np.cumsum([len(span) for span in spans])
    tables = np.split(flat, ends[:-1]) if spans else []
    return UaiModel(kind, np.array(cards, dtype=np.int64), scopes, tables)


def _check_scale(scale: str) -> str:
    if scale not in SCALES:
        raise InputError("scale", scale, f"one of {', '.join(SCALES)}")
    return scale


def _read_scope(words: Words, factor: int, n_variables: int) -> tuple[int, ...]:
    size = words.count(f"variables of factor {factor}")
    start = words.at
    scope = tuple(words.integer(f"a variable of factor {factor}", below=n_variables) for _ in range(size))
    if len(set(scope)) < size:
        first = {v: k for k, v in reversed(list(enumerate(scope)))}
        again = next(k for k, v in enumerate(scope) if first[v] < k)
        words.fail(start + again, f"distinct variables of factor {factor}")
    return scope


def _read_table_span(words: Words, factor: int, cards: list[int]) -> range:
    """Check the stated size of a table and return the positions of its values."""
    size = words.integer(f"the number of values of factor {factor}")
    product = 1
    for card in cards:
        # Larger products cannot match a stated size.
        product = min(product * card, MOST_VALUES)
    if size != product:
        shown = cards if len(cards) <= FACTORS_SHOWN else [*cards[:FACTORS_SHOWN], "…"]
        total = f" = {product}" if len(cards) > 1 and product < MOST_VALUES else ""
        sizes = " · ".join(map(str, shown)) or "1"
        words.fail(words.at - 1, f"{sizes}{total} values of factor {factor}, the product of the numbers of states")
    if size > words.n_left:
        got = Description(f"{words.n_left} values at the end of the file")
        words.fail(len(words.words), f"{size} values of factor {factor}", got)
    words.at += size
    return range(words.at - size, words.at)


def _log_values(words: Words, spans: list[range], scale: str) -> Vector:
    """Return the natural logarithms of the values at the given positions."""
    places = np.array(list(chain.from_iterable(spans)), dtype=np.int64)
    try:
        if b"_" in words.data:
            raise ValueError
        values = np.array([float(words.words[k]) for k in places])
    except ValueError:
        values = np.array([words.real(k) for k in places.tolist()])
    if scale != "linear":
        with np.errstate(over="ignore"):
            logs = values * SCALES[scale]
        # −inf represents a weight of 0, so that no finite logarithm may become −inf.
        bad = np.flatnonzero(~(logs < np.inf) | (np.isinf(logs) & np.isfinite(values)))
        if len(bad):
            words.fail(int(places[bad[0]]), "the logarithm of a weight in the range of floating point, or -inf")
        return logs
    bad = np.flatnonzero(~(values >= 0))
    if len(bad):
        hint = "Set `scale` if these are logarithms."
        words.fail(int(places[bad[0]]), "a weight ≥ 0", hint=hint)
    with np.errstate(divide="ignore"):
        logs = np.log(values)
    for k in np.flatnonzero(~np.isfinite(logs)).tolist():
        logs[k] = _exact_log(words, int(places[k]))
    return logs


def _exact_log(words: Words, position: int) -> float:
    """Return the natural logarithm of a decimal number that is 0 or infinite in floating point."""
    word = words.words[position].decode()
    try:
        number = Decimal(word)
    except InvalidOperation:
        number = Decimal("inf")
    if not number:
        return -math.inf
    if not number.is_finite() or number < 0:
        words.fail(position, "a finite weight ≥ 0")
    digits, exponent = number.as_tuple()[1:]
    mantissa = float("0." + "".join(map(str, digits)))
    return math.log(mantissa) + (len(digits) + int(exponent)) * SCALES["log10"]


def write_uai(path: FilePath, model: UaiModel, scale: str = "linear") -> None:
    """Write a model.

    Parameters
    ----------
    path : str or path
        The file; compressed if its name ends in ``.gz``; ``-`` is standard output.
    model : UaiModel
        The model.
    scale : {"linear", "natural", "log10"}, default="linear"
        Whether to write weights or logarithms of weights. Natural logarithms are marked by the kind LOGMARKOV or
        LOGBAYES; `read_uai` needs the scale of those to the base 10.
    """
    unit = SCALES[_check_scale(scale)]
    lines = [("LOG" if scale == "natural" else "") + model.kind, str(len(model.cards))]
    lines += [" ".join(map(str, np.asarray(model.cards).tolist())), str(len(model.scopes))]
    lines += [" ".join(map(str, (len(scope), *scope))) for scope in model.scopes]
    for f, (scope, table) in enumerate(zip(model.scopes, model.tables, strict=True)):
        size = math.prod(int(model.cards[v]) for v in scope)
        if len(table) != size:
            raise InputError("model", Description(f"{len(table)} values of factor {f}"), f"a model with {size} of them")
        with np.errstate(over="ignore", under="ignore"):
            values = np.exp(table) if unit == 0 else np.asarray(table) / unit
        if unit == 0 and ((np.asarray(table) > -np.inf) & ((values == 0) | (values == np.inf))).any():
            got = Description(f"a weight of factor {f} beyond the range of floating point")
            raise InputError("model", got, "a model of representable weights", "Set `scale` to 'natural'.")
        lines += ["", str(size), " ".join(map(repr, values.tolist()))]
    write_text(path, "\n".join(lines) + "\n")


@dataclass(frozen=True, eq=False)
class UaiSolutions:
    """Answers to a task, one per sample of evidence.

    Parameters
    ----------
    task : str
        "PR", "MAR", "MAP" or "MMAP".
    answers : list
        PR: log10 of the partition function. MAR: a list with the probabilities of the states of each variable. MAP: the
        state of each variable. MMAP: a dict from each query variable to its state.
    """

    task: str
    answers: list[Any]


def _pairs_length(words: Sequence[bytes], start: int) -> int | None:
    """Return the number of words of a count and its pairs."""
    return 1 + 2 * int(words[start]) if INTEGER.fullmatch(words[start]) else None


def _states_length(words: Sequence[bytes], start: int) -> int | None:
    return 1 + int(words[start]) if INTEGER.fullmatch(words[start]) else None


def _marginals_length(words: Sequence[bytes], start: int) -> int | None:
    if not INTEGER.fullmatch(words[start]):
        return None
    at = start + 1
    for _ in range(int(words[start])):
        if at >= len(words) or not INTEGER.fullmatch(words[at]):
            return None
        at += 1 + int(words[at])
    return at - start


_LENGTHS: dict[str, Callable[[Sequence[bytes], int], int | None]] = {
    "PR": lambda words, start: 1,
    "MAR": _marginals_length,
    "MAP": _states_length,
    "MMAP": _pairs_length,
}


def _find_samples(words: Words, first: int, length: Callable[[Sequence[bytes], int], int | None]) -> list[int] | None:
    """Return the positions of samples: one sample, or the older form of a number of samples followed by these.

    If a file can be read in both ways, lines decide: a number alone on its line, followed by that number of lines with
    one sample each, is the older form.
    """
    text, rows = words.words, words.lines(first)
    if not rows:
        return None
    head = text[first]
    in_lines = len(rows[0]) == 1 and INTEGER.fullmatch(head) and int(head) == len(rows) - 1 > 0
    if in_lines and all(length(text, row.start) == len(row) for row in rows[1:]):
        return [row.start for row in rows[1:]]
    if length(text, first) == len(text) - first:
        return [first]
    if not INTEGER.fullmatch(head) or int(head) >= len(text) - first:
        return None
    starts, at = [], first + 1
    for _ in range(int(head)):
        size = length(text, at) if at < len(text) else None
        if size is None:
            return None
        starts.append(at)
        at += size
    return starts if at == len(text) else None


def read_uai_evidence(path: FilePath, cards: Sequence[int] | Indices) -> list[dict[int, int]]:
    """Read evidence: the number of observed variables, then pairs of variable and state, both from 0.

    Parameters
    ----------
    path : str or path
        The file; decompressed if its name ends in ``.gz``; ``-`` is standard input. In the older form the number of
        samples precedes them. An empty file is one sample without observations.
    cards : sequence of V int
        The number of states of each variable of the model.

    Returns
    -------
    list of dict of int to int
        The observed states of each sample.
    """
    words = Words(path)
    if not words.words:
        return [{}]
    starts = _find_samples(words, 0, _pairs_length)
    whole = _pairs_length(words.words, 0)
    if starts is None and whole is not None and set(words.words[whole:]) == {b"0"}:
        # Some programs end a file with the number of further samples.
        words.ignore(len(words.words) - whole, "the last pair")
        starts = [0]
    if starts is None:
        count = words.integer("the number of observed variables")
        got = Description(f"{words.n_left} words")
        words.fail(0, f"{2 * count} words after the number of observed variables, pairs of variable and state", got)
    return [_read_observed(words, start, cards) for start in starts]


def _read_observed(words: Words, start: int, cards: Sequence[int] | Indices) -> dict[int, int]:
    words.at = start
    observed: dict[int, int] = {}
    for _ in range(words.integer("the number of observed variables")):
        variable = words.integer("an observed variable", below=len(cards))
        state = words.integer(f"the state of variable {variable}", below=int(cards[variable]))
        if observed.setdefault(variable, state) != state:
            got = Description(f"{observed[variable]} and {state}")
            words.fail(words.at - 1, f"one state of variable {variable}", got)
    return observed


def write_uai_evidence(path: FilePath, samples: Sequence[Mapping[int, int]]) -> None:
    """Write evidence, in the older form with the number of samples if there is not exactly one.

    Parameters
    ----------
    path : str or path
        The file; compressed if its name ends in ``.gz``; ``-`` is standard output.
    samples : sequence of mappings of int to int
        The observed states of each sample.
    """
    _write_samples(path, [], [_pairs_line(sample) for sample in samples])


def _pairs_line(pairs: Mapping[int, int]) -> str:
    return " ".join(map(str, (len(pairs), *chain.from_iterable(pairs.items()))))


def _write_samples(path: FilePath, head: list[str], lines: list[str]) -> None:
    count = [] if len(lines) == 1 else [str(len(lines))]
    write_text(path, "".join(f"{line}\n" for line in [*head, *count, *lines]))


def read_uai_query(path: FilePath, n_variables: int) -> list[int]:
    """Read the query of a marginal MAP task: the number of variables to maximize over, then these.

    Parameters
    ----------
    path : str or path
        The file; decompressed if its name ends in ``.gz``; ``-`` is standard input.
    n_variables : int
        Number of variables of the model.

    Returns
    -------
    list of int
        The variables in the order of the file.
    """
    words = Words(path)
    query: dict[int, None] = {}
    for _ in range(words.count("query variables")):
        variable = words.integer("a query variable", below=n_variables)
        if variable in query:
            words.fail(words.at - 1, "distinct query variables")
        query[variable] = None
    words.end("the last query variable")
    return list(query)


def write_uai_query(path: FilePath, query: Sequence[int]) -> None:
    """Write the query of a marginal MAP task.

    Parameters
    ----------
    path : str or path
        The file; compressed if its name ends in ``.gz``; ``-`` is standard output.
    query : sequence of int
        The variables to maximize over.
    """
    write_text(path, " ".join(map(str, (len(query), *query))) + "\n")


def read_uai_solutions(path: FilePath) -> UaiSolutions:
    """Read the answers to a task.

    Parameters
    ----------
    path : str or path
        The file; decompressed if its name ends in ``.gz``; ``-`` is standard input. Its first word is the task. The
        last of several solutions, which the word -BEGIN- separates, is read.

    Returns
    -------
    UaiSolutions
        The answers; the task MPE is MAP under another name.
    """
    words = Words(path)
    task = words.next("the task").decode("utf-8", "replace").upper().replace("MPE", "MAP")
    if task not in TASKS:
        words.fail(0, f"the task, one of {', '.join(TASKS)}")
    attempts = [k + 1 for k, word in enumerate(words.words) if word == _NEW_SOLUTION]
    words.at = attempts[-1] if attempts else 1
    if not words.n_left:
        words.fail(words.at, "a solution")
    starts = _find_samples(words, words.at, _LENGTHS[task])
    if starts is None:
        words.fail(words.at, f"a solution of the task {task}", Description(f"{words.n_left} other words"))
    return UaiSolutions(task, [_read_answer(words, task, start) for start in starts])


def _read_answer(words: Words, task: str, start: int) -> Any:
    words.at = start
    if task == "PR":
        return words.real(start)
    count = words.integer("the number of variables")
    if task == "MAP":
        return [words.integer("a state") for _ in range(count)]
    if task == "MMAP":
        answer = {}
        for _ in range(count):
            variable = words.integer("a variable")
            answer[variable] = words.integer("a state")
        return answer
    return list(_read_marginals(words, count))


def _read_marginals(words: Words, count: int) -> Iterator[Vector]:
    for variable in range(count):
        card = words.integer("a number of states")
        values = np.array([words.real(words.at + k) for k in range(card)])
        if not ((values >= 0) & (values <= 1)).all():
            words.fail(words.at, f"probabilities of variable {variable}", values.tolist())
        words.at += card
        yield values


def write_uai_solutions(path: FilePath, solutions: UaiSolutions) -> None:
    """Write the answers to a task, in the older form with their number if there is not exactly one.

    Parameters
    ----------
    path : str or path
        The file; compressed if its name ends in ``.gz``; ``-`` is standard output.
    solutions : UaiSolutions
        The answers.
    """
    if solutions.task not in TASKS:
        raise InputError("task", solutions.task, f"one of {', '.join(TASKS)}")
    _write_samples(path, [solutions.task], [_answer_line(solutions.task, answer) for answer in solutions.answers])


def _answer_line(task: str, answer: Any) -> str:
    if task == "PR":
        return repr(float(answer))
    if task == "MMAP":
        return _pairs_line({int(variable): int(state) for variable, state in answer.items()})
    if task == "MAP":
        return " ".join(map(str, (len(answer), *map(int, answer))))
    rows = [np.asarray(row, dtype=np.float64).tolist() for row in answer]
    return " ".join([str(len(rows)), *(" ".join([str(len(row)), *map(repr, row)]) for row in rows)])
