"""Damage to files: what to change in the bytes of a good one, decided by a seed."""

import json
import random
import re
from collections.abc import Callable, Sequence
from typing import Any

NUMBER = re.compile(rb"-?[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
LONGEST = 1 << 18
"""Bytes above which a damaged file does not grow further."""
RUN = 1 << 16
RUNS = (b"A", b" ", b"1", b"(", b"a.", b"[", b"w=")
MOST_CHANGES = 4

EXTREMES = (
    b"0",
    b"-1",
    b"1",
    b"1e999",
    b"-1e999",
    b"1e-999",
    b"1e308",
    b"nan",
    b"-inf",
    b"Infinity",
    b"0x10",
    b"1_000",
    b"\xd9\xa3",
    b"127",
    b"256",
    b"2147483647",
    b"4294967295",
    b"-9223372036854775808",
    b"18446744073709551616",
    b"1000000000000",
    b"0" * 5000,
    b"9" * 5000,
    b"0." + b"3" * 5000,
)
ODD = (
    b"\0",
    b"\xef\xbb\xbf",
    b"\xff\xfe",
    b"\xed\xa0\x80",
    b"\\ud800",
    b"\\u0000",
    b"\r",
    b"\r\n",
    b"\n\n",
    b"\t",
    b"\x0b",
    b"\x1b[2J",
    b"\x1c",
    b"\xc2\x85",
    b"\xe2\x80\xa8",
    b"\xc2\xa0",
    b'"',
    b"'",
    b"(",
    b")",
    b"[",
    b"{",
    b"}",
    b"#",
    b",",
    b":",
    b"../",
)
VALUES: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    1,
    -1,
    2,
    3,
    7,
    255,
    2**31,
    -(2**31) - 1,
    2**62,
    2**63,
    2**64,
    -(2**63),
    10**12,
    10**30,
    0.5,
    1e308,
    -1e308,
    5e-324,
    "",
    "x",
    "nan",
    "\0",
    "\x1b[2J",
    "A" * 2000,
    [],
    {},
    [[]],
    [0],
    [-1],
    ["a", "a"],
    {"$float": "nan"},
    {"$float": "inf"},
    {"$float": "x"},
    {"$array": [1, [2]]},
    {"$array": [-1, 5]},
    {"$array": [[1.0, 2.0], [3.0, 4.0]]},
    {"$array": ["a", "b"]},
    {"$tuple": [1]},
    {"$dict": [["a", 1]]},
    {"$dict": [[[], 1]]},
    {"$object": "os.system", "params": {"command": "true"}},
    {"$object": "Chain", "params": {}},
    {"$object": "Multiclass", "params": {"__class__": 1}},
    {"$object": "Bundle", "params": {}},
    {"$object": "StructuralSVM", "params": {"task": {"$object": "Chain", "params": {}}}},
)

Change = Callable[[bytes, Sequence[bytes], Sequence[bytes], random.Random], bytes]


def mutate(seeds: Sequence[bytes], words: Sequence[bytes], rng: random.Random) -> bytes:
    """Return one of the files with one to four changes; words of its format are put in by chance."""
    data = rng.choice(seeds)
    # What is no JSON is refused at once: half of the changes to JSON leave it such.
    changes = (change_json,) if data[:1] in (b"{", b"[") and rng.random() < 0.5 else CHANGES
    for _ in range(rng.randint(1, MOST_CHANGES)):
        change = rng.choice(changes)
        data = change(data, seeds, words, rng)[: 2 * LONGEST]
    return data


def _span(data: bytes, rng: random.Random, longest: int = 64) -> tuple[int, int]:
    start = rng.randint(0, len(data))
    return start, min(len(data), start + rng.randint(0, min(longest, len(data) + 1)))


def flip_bits(data: bytes, seeds: Sequence[bytes], words: Sequence[bytes], rng: random.Random) -> bytes:
    """Turn over up to eight bits."""
    found = bytearray(data)
    for _ in range(rng.randint(1, 8) if found else 0):
        found[rng.randrange(len(found))] ^= 1 << rng.randrange(8)
    return bytes(found)


def set_bytes(data: bytes, seeds: Sequence[bytes], words: Sequence[bytes], rng: random.Random) -> bytes:
    """Set up to four neighboring bytes to the smallest or largest values: lengths in headers."""
    start, end = _span(data, rng, 4)
    return data[:start] + rng.choice((b"\0", b"\xff", b"\x7f", b"\x80")) * (end - start) + data[end:]


def cut_off(data: bytes, seeds: Sequence[bytes], words: Sequence[bytes], rng: random.Random) -> bytes:
    """Leave out the end."""
    return data[: rng.randint(0, len(data))]


def cut_out(data: bytes, seeds: Sequence[bytes], words: Sequence[bytes], rng: random.Random) -> bytes:
    """Leave out a piece."""
    start, end = _span(data, rng, 256)
    return data[:start] + data[end:]


def repeat(data: bytes, seeds: Sequence[bytes], words: Sequence[bytes], rng: random.Random) -> bytes:
    """Repeat a piece a few times."""
    start, end = _span(data, rng, 256)
    return data[:end] + data[start:end] * rng.randint(1, 8) + data[end:]


def stretch(data: bytes, seeds: Sequence[bytes], words: Sequence[bytes], rng: random.Random) -> bytes:
    """Now and then put in a long run of one short piece: what takes quadratic time shows here."""
    if rng.random() < 0.9 or len(data) > LONGEST:
        return insert(data, seeds, words, rng)
    at, end = _span(data, rng, 8)
    piece = rng.choice((data[at:end] or b"A", rng.choice(ODD), rng.choice(RUNS)))
    return data[:at] + piece * (RUN // len(piece)) + data[at:]


def insert(data: bytes, seeds: Sequence[bytes], words: Sequence[bytes], rng: random.Random) -> bytes:
    """Put in a word of the format, or a sign that few expect."""
    at = rng.randint(0, len(data))
    word = rng.choice((*words, rng.choice(ODD)))
    return data[:at] + word + data[at:]


def swap_number(data: bytes, seeds: Sequence[bytes], words: Sequence[bytes], rng: random.Random) -> bytes:
    """Replace a number by an extreme one."""
    places = [match.span() for match in NUMBER.finditer(data[:LONGEST])]
    if not places:
        return insert(data, seeds, words, rng)
    start, end = rng.choice(places)
    return data[:start] + rng.choice(EXTREMES) + data[end:]


def splice(data: bytes, seeds: Sequence[bytes], words: Sequence[bytes], rng: random.Random) -> bytes:
    """Go on with the end of another file."""
    other = rng.choice(seeds)
    return data[: rng.randint(0, len(data))] + other[rng.randint(0, len(other)) :]


def move_lines(data: bytes, seeds: Sequence[bytes], words: Sequence[bytes], rng: random.Random) -> bytes:
    """Leave out, repeat or exchange lines."""
    lines = data.split(b"\n")
    first, second = rng.randrange(len(lines)), rng.randrange(len(lines))
    kind = rng.randrange(3)
    if kind == 0:
        del lines[first]
    elif kind == 1:
        lines.insert(second, lines[first])
    else:
        lines[first], lines[second] = lines[second], lines[first]
    return b"\n".join(lines)


def change_json(data: bytes, seeds: Sequence[bytes], words: Sequence[bytes], rng: random.Random) -> bytes:
    """Change a value, a name or a list of JSON, or of one of its lines; other files get a word instead."""
    lines = data.split(b"\n") if data[:1] in (b"{", b"[") else []
    whole = len([line for line in lines if line.strip()]) < 2
    k = 0 if whole else rng.randrange(max(len(lines), 1))
    try:
        tree = json.loads(data if whole else lines[k])
    except (ValueError, RecursionError, IndexError):
        return insert(data, seeds, words, rng)
    changed = json.dumps(_change_tree(tree, rng)).encode()
    if whole:
        return changed
    lines[k] = changed
    return b"\n".join(lines)


def _change_tree(tree: Any, rng: random.Random) -> Any:
    """Return a tree with one change at a place chosen step by step from the root."""
    if not isinstance(tree, dict | list) or not tree or rng.random() < 0.05:
        return _other_value(tree, rng)
    keys = list(tree) if isinstance(tree, dict) else list(range(len(tree)))
    key, kind = rng.choice(keys), rng.random()
    if kind < 0.06:
        del tree[key]
    elif kind < 0.09 and isinstance(tree, dict):
        tree[rng.choice(("x", "__class__", "", rng.choice(keys)))] = tree.pop(key)
    elif kind < 0.12 and isinstance(tree, list):
        tree.insert(key, tree[rng.choice(keys)])
    elif kind < 0.15:
        other = rng.choice(keys)
        tree[key], tree[other] = tree[other], tree[key]
    else:
        tree[key] = _change_tree(tree[key], rng)
    return tree


def _other_value(value: Any, rng: random.Random) -> Any:
    near: tuple[Any, ...] = ()
    if isinstance(value, int) and not isinstance(value, bool):
        near = (value + 1, value - 1, -value, value * 2, float(value) if abs(value) < 2**53 else 0.5)
    elif isinstance(value, str):
        near = (value + "x", value[:-1], value * 2, value.encode("utf-8", "surrogatepass").hex())
    elif isinstance(value, list):
        near = (value + value, value[::-1], value[:1])
    return rng.choice(near) if near and rng.random() < 0.4 else rng.choice(VALUES)


CHANGES: tuple[Change, ...] = (
    flip_bits,
    set_bytes,
    cut_off,
    cut_out,
    repeat,
    stretch,
    insert,
    swap_number,
    swap_number,
    splice,
    move_lines,
    change_json,
    change_json,
    change_json,
)
