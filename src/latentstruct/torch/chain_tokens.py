"""Weighted sums of the log-likelihoods of single tokens, by operations of torch."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from latentstruct.core.types import members
from latentstruct.exceptions import Description, InputError
from latentstruct.torch.chain_pools import Blocks, Layout
from latentstruct.torch.tensors import loss_dtype

FORBIDDEN = -1e30
"""Score of what is forbidden; sums of it stay finite, so that derivatives exist."""


def weighted_token_losses(blocks: Blocks, layout: Layout, sets: NDArray[np.bool_], weights: Tensor) -> Tensor:
    """Return −Σ_t w_t log p(y_t | y_1 … y_{t−1}) of each sequence, (B,).

    `sets` (N, S) are the possible labels of tokens, one if a label is known. With L_t the log-sum of all labelings that
    agree with the first t tokens, a summand is w_t (L_{t−1} − L_t): a forward message of what is allowed meets a
    backward message of everything.
    """
    dtype = loss_dtype(*blocks)
    emissions, transitions, start, end = (None if one is None else one.to(dtype).clamp(min=FORBIDDEN) for one in blocks)
    assert emissions is not None
    assert transitions is not None
    device, n = emissions.device, emissions.shape[2]
    count, length = layout.shape[0], int(np.diff(layout.offsets).max(initial=0))
    if length == 0:
        return emissions.sum(dim=(1, 2)) * 0.0
    owner, rank = (torch.from_numpy(part).to(device) for part in members(layout.offsets))
    places = torch.arange(layout.n_tokens) if layout.places is None else torch.from_numpy(layout.places)
    own = emissions.reshape(-1, n)[places.to(device)]
    for block, chosen in ((start, layout.firsts), (end, layout.lasts)):
        if block is not None:
            own = own.index_add(0, torch.from_numpy(chosen).to(device), block.expand(len(chosen), n))
    scores = own.new_zeros(count, length, n).index_put((owner, rank), own)
    closed = torch.zeros(count, length, n, dtype=torch.bool, device=device)
    closed[owner, rank] = torch.from_numpy(~sets).to(device)
    token = torch.zeros(count, length, dtype=torch.bool, device=device)
    token[owner, rank] = True
    weight = own.new_zeros(count, length).index_put((owner, rank), weights.reshape(-1)[places].to(device, dtype))

    after = [own.new_zeros(count, n)]
    for t in range(length - 1, 0, -1):
        found = torch.logsumexp(transitions + (scores[:, t] + after[0])[:, None, :], dim=2)
        after.insert(0, torch.where(token[:, t, None], found, 0.0))
    agreeing = scores.masked_fill(closed, FORBIDDEN)
    before, sums = agreeing[:, 0], [torch.logsumexp(scores[:, 0] + after[0], dim=1)]
    for t in range(length):
        if t > 0:
            before = torch.logsumexp(before[:, :, None] + transitions, dim=1) + agreeing[:, t]
        sums.append(torch.logsumexp(before + after[t], dim=1))
    found = torch.stack(sums, dim=1)
    steps = torch.where(token, found[:, :-1] - found[:, 1:], 0.0)
    if not (steps < -FORBIDDEN / 2).all():
        raise InputError("tags", Description("labels that transitions or emissions forbid"), "labels that are allowed")
    return (weight * steps).sum(dim=1)
