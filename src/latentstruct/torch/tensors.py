"""Tensors as arrays of the kernels and back: float64 on the CPU, whatever they are."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from latentstruct.exceptions import Description, InputError

REDUCTIONS = ("none", "sum", "mean", "token_mean")
HALVES = (torch.float16, torch.bfloat16)


def shape_of(value: Any) -> Description:
    """Return a description of a tensor, or of the type of anything else, for errors."""
    if not isinstance(value, Tensor):
        return Description(f"a {type(value).__name__}")
    return Description(f"a tensor of {value.dtype} of shape {tuple(value.shape)}")


def check_tensor(value: Any, name: str, shape: tuple[int | None, ...], expected: str) -> Tensor:
    """Return a tensor of real numbers if it has a shape, in which None is any length; raise InputError otherwise."""
    fits = isinstance(value, Tensor) and value.dim() == len(shape) and value.is_floating_point()
    if not fits or any(wanted not in (None, length) for wanted, length in zip(shape, value.shape, strict=True)):
        raise InputError(name, shape_of(value), f"a floating-point tensor {expected}")
    return value


def check_mask(mask: Any, shape: tuple[int, ...]) -> Tensor:
    """Return a mask as booleans; raise InputError if it has another shape or type."""
    if not isinstance(mask, Tensor) or mask.dtype not in (torch.bool, torch.uint8) or mask.shape != shape:
        raise InputError("mask", shape_of(mask), f"a boolean tensor of shape {shape}")
    return mask.bool()


def to_array(values: Tensor, name: str, forbidding: bool = False) -> NDArray[np.float64]:
    """Return a new float64 array; raise InputError for NaN and infinity, but for −inf if that forbids something."""
    array: NDArray[np.float64] = values.detach().to("cpu", torch.float64, copy=True).contiguous().numpy()
    if array.size and not (array.max() < np.inf and (forbidding or array.min() > -np.inf)):
        got = "NaN" if np.isnan(array).any() else "an infinite score"
        raise InputError(name, Description(got), "finite, or −inf for what is forbidden" if forbidding else "finite")
    return array


def to_tensor(values: NDArray[Any], like: Tensor) -> Tensor:
    """Return an array as a tensor of the device and type of another one."""
    return torch.from_numpy(np.ascontiguousarray(values)).to(like.device, like.dtype)


def loss_dtype(*scores: Tensor | None) -> torch.dtype:
    """Return the type of losses: that of the scores, and float32 for scores in half precision."""
    found = torch.float32
    for one in scores:
        if one is not None and one.dtype not in HALVES:
            found = torch.promote_types(found, one.dtype)
    return found


def reduce_losses(losses: Tensor, reduction: str, n_tokens: int) -> Tensor:
    """Return the losses (B,), their sum, their mean, or their sum per token."""
    if reduction not in REDUCTIONS:
        raise InputError("reduction", reduction, f"one of {', '.join(map(repr, REDUCTIONS))}")
    if reduction == "none":
        return losses
    count = {"sum": 1, "mean": len(losses), "token_mean": n_tokens}[reduction]
    if count == 0:
        nothing = "an empty batch" if reduction == "mean" else "a batch without tokens"
        raise InputError("emissions", Description(nothing), f"at least one to average for reduction={reduction!r}")
    return losses.sum() / count


def integers(value: Any, name: str, shape: tuple[int, ...], low: int, n: int, special: str) -> NDArray[np.int64]:
    """Return integers from `low` to n − 1 of a shape as an array; `special` describes the negative ones."""
    if not isinstance(value, Tensor) or value.shape != shape or value.is_floating_point() or value.dtype == torch.bool:
        raise InputError(name, shape_of(value), f"an integer tensor of shape {shape}")
    found: NDArray[np.int64] = value.detach().to("cpu", torch.int64).numpy()
    for wrong in found[(found < low) | (found >= n)][:1].tolist():
        others = f", or {special}" if special else ""
        raise InputError(name, wrong, f"numbers from {max(low, 0)} to {n - 1}{others}")
    return found


def check_lengths(lengths: Any, count: int, longest: int, name: str = "lengths") -> NDArray[np.int64]:
    """Return lengths (B,) from 1 to `longest`, which is the default."""
    if longest < 1:
        raise InputError("scores", Description("no positions"), "scores of at least one position")
    if lengths is None:
        return np.full(count, longest, dtype=np.int64)
    return integers(lengths, name, (count,), 1, longest + 1, "")
