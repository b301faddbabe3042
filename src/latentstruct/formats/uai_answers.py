"""Evidence, queries and solutions in the formats of the UAI inference competitions."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from latentstruct.exceptions import InputError
from latentstruct.formats.text import FilePath, show, write_text
from latentstruct.formats.uai import CUT_SHORT_CURE, WHOLE, Words
from latentstruct.ragged import Indices, Vector

TASKS = ("PR", "MAR", "MAP", "MMAP")
_NEW_SOLUTION = b"-BEGIN-"


@dataclass(frozen=True, eq=False)
class UaiSolutions:
    """Answers to one task, one for each sample of evidence.

    Parameters
    ----------
    task : str
        "PR", "MAR", "MAP" or "MMAP".
    answers : list
        PR: log10 of the partition function. MAR: a list with the probabilities of each variable's states. MAP: the
        state of each variable. MMAP: a dict from each query variable to its state.
    """

    task: str
    answers: list[Any]


def _pairs_length(words: Sequence[bytes], start: int) -> int | None:
    """Return how many words a count and so many pairs take."""
    return 1 + 2 * int(words[start]) if WHOLE.fullmatch(words[start]) else None


def _states_length(words: Sequence[bytes], start: int) -> int | None:
    return 1 + int(words[start]) if WHOLE.fullmatch(words[start]) else None


def _marginals_length(words: Sequence[bytes], start: int) -> int | None:
    if not WHOLE.fullmatch(words[start]):
        return None
    at = start + 1
    for _ in range(int(words[start])):
        if at >= len(words) or not WHOLE.fullmatch(words[at]):
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
    """Return where samples begin: one sample, or the older form of a number of samples and then these.

    Files where both readings are possible exist; lines then decide: a number alone on its line, followed by as many
    lines that each hold one sample, is the older form.
    """
    text, rows = words.words, words.lines(first)
    if not rows:
        return None
    head = text[first]
    in_lines = len(rows[0]) == 1 and WHOLE.fullmatch(head) and int(head) == len(rows) - 1 > 0
    if in_lines and all(length(text, row.start) == len(row) for row in rows[1:]):
        return [row.start for row in rows[1:]]
    if length(text, first) == len(text) - first:
        return [first]
    if not WHOLE.fullmatch(head) or int(head) >= len(text) - first:
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
    """Read evidence: the number of observed variables, then pairs of variable and state, both counted from 0.

    Parameters
    ----------
    path : str or path
        The file; decompressed if its name ends in ``.gz``; ``-`` is standard input. In the older form the number of
        samples comes first, then one after the other. An empty file is evidence of nothing.
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
    if starts is None:
        count = words.whole("the number of observed variables")
        words.fail(
            0,
            f"{count} observed variables are announced, but {words.n_left} words follow; expected {2 * count}, a "
            "variable and its state for each: correct the number or complete the pairs",
        )
    return [_read_observed(words, start, cards) for start in starts]


def _read_observed(words: Words, start: int, cards: Sequence[int] | Indices) -> dict[int, int]:
    words.at = start
    observed: dict[int, int] = {}
    for _ in range(words.whole("the number of observed variables")):
        variable = words.whole("an observed variable", below=len(cards))
        state = words.whole(f"the state of variable {variable}", below=int(cards[variable]))
        if observed.setdefault(variable, state) != state:
            words.fail(
                words.at - 1,
                f"variable {variable} is observed in state {state} and before in state {observed[variable]}; expected "
                "one state: remove one of them",
            )
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
    """Read the query of a marginal MAP task: the number of variables to maximise over, then these.

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
    for _ in range(words.announced("query variables")):
        variable = words.whole("a query variable", below=n_variables)
        if variable in query:
            words.fail(
                words.at - 1, f"variable {variable} is asked for twice; expected variables that all differ: remove one"
            )
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
        The variables to maximise over.
    """
    write_text(path, " ".join(map(str, (len(query), *query))) + "\n")


def read_uai_solutions(path: FilePath) -> UaiSolutions:
    """Read the answers to a task.

    Parameters
    ----------
    path : str or path
        The file; decompressed if its name ends in ``.gz``; ``-`` is standard input. Its first word is the task; of
        several attempts, which the word -BEGIN- separates, the last one counts.

    Returns
    -------
    UaiSolutions
        The answers; the task MPE is MAP under another name.
    """
    words = Words(path)
    task = words.next("the task").decode("utf-8", "replace").upper().replace("MPE", "MAP")
    if task not in TASKS:
        words.fail(
            0,
            f"found {words.shown(0)} where the task should be; expected one of {', '.join(TASKS)}: check the file",
        )
    attempts = [k + 1 for k, word in enumerate(words.words) if word == _NEW_SOLUTION]
    words.at = attempts[-1] if attempts else 1
    if not words.n_left:
        words.fail(words.at, f"the file ends where the solution should be; expected it: {CUT_SHORT_CURE}")
    starts = _find_samples(words, words.at, _LENGTHS[task])
    if starts is None:
        words.fail(
            words.at,
            f"the {words.n_left} words from {words.shown(words.at)} on are no solution of the task {task}; expected "
            f"as many as its numbers announce: {CUT_SHORT_CURE}",
        )
    return UaiSolutions(task, [_read_answer(words, task, start) for start in starts])


def _read_answer(words: Words, task: str, start: int) -> Any:
    words.at = start
    if task == "PR":
        return words.real(start)
    count = words.whole("the number of variables")
    if task == "MAP":
        return [words.whole("a state") for _ in range(count)]
    if task == "MMAP":
        answer = {}
        for _ in range(count):
            variable = words.whole("a variable")
            answer[variable] = words.whole("a state")
        return answer
    return list(_read_marginals(words, count))


def _read_marginals(words: Words, count: int) -> Iterator[Vector]:
    for variable in range(count):
        card = words.whole("a number of states")
        values = np.array([words.real(words.at + k) for k in range(card)])
        if not ((values >= 0) & (values <= 1)).all():
            words.fail(
                words.at,
                f"the marginals of variable {variable} are {show(values.tolist())}; expected probabilities: correct "
                "them",
            )
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
        raise InputError(f"the task is {show(solutions.task)}; expected one of {', '.join(TASKS)}: correct it")
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
