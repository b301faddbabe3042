"""Losses on scores of a network: forward and backward of `latentstruct.torch` against other layers, one thread."""

import importlib.util

from benchmarks.common import Line, cpu

SIZES = ((32, 50, 20, 0.1), (8, 400, 50, 0.1))
"""Batch, length, labels, and what the ratio to pytorch-crf may be."""


def installed(name: str) -> bool:
    if importlib.util.find_spec(name) is not None:
        return True
    print(f"{name} is not installed: its lines are left out")
    return False


def pass_of(loss, emissions, repeats):
    """Return the CPU time of a forward and a backward pass, the loss and the slope of the emissions."""

    def both():
        emissions.grad = None
        value = loss()
        value.backward()
        return float(value.detach())

    seconds, value = cpu(both, repeats)
    return seconds, value, emissions.grad.clone()


def compared(what, peer_name, limit, ours, theirs) -> Line:
    error = float((ours[2] - theirs[2]).abs().max())
    reached = f"losses {ours[1]:.2f} and {theirs[1]:.2f}, slopes differ by {error:.1e}"
    return Line(what, ours[0], theirs[0], peer_name, limit, reached)


def run(quick: bool = False) -> list[Line]:
    import torch

    from latentstruct.torch import ChainDistribution, ChainLoss

    torch.set_num_threads(1)
    torch.manual_seed(0)
    repeats = 10 if quick else 40
    lines = []
    for batch, length, n, limit in SIZES:
        what = f"chain loss, forward and backward, {batch}×{length}×{n}"
        emissions = torch.randn(batch, length, n, requires_grad=True)
        tags, mask = torch.randint(n, (batch, length)), torch.ones(batch, length, dtype=torch.bool)
        half = tags.masked_fill(torch.rand(batch, length) < 0.5, -1)
        crf = ChainLoss(n)

        def ours(tags, crf=crf, emissions=emissions):
            return pass_of(lambda: crf(emissions, tags, reduction="sum"), emissions, repeats)

        if installed("torchcrf"):
            from torchcrf import CRF

            peer = CRF(n, batch_first=True)
            peer.load_state_dict(crf.state_dict())
            theirs = pass_of(lambda: -peer(emissions, tags, mask), emissions, repeats // 4)  # noqa: B023
            lines.append(compared(what, "pytorch-crf", limit, ours(tags), theirs))
        if installed("pytorch_partial_crf"):
            from pytorch_partial_crf import PartialCRF

            partial = PartialCRF(n)
            partial.load_state_dict(crf.state_dict())
            theirs = pass_of(lambda: partial(emissions, half.clone()), emissions, repeats // 4)  # noqa: B023
            lines.append(compared(f"{what}, half of the labels", "pytorch-partial-crf", 0.05, ours(half), theirs))
        if installed("torch_struct") and not (quick and length > 100):
            from torch_struct import LinearChainCRF

            transitions = crf.transitions.detach()
            few = pass_of(
                lambda: ChainDistribution(emissions, transitions).log_partition.sum(),  # noqa: B023
                emissions,
                repeats,
            )

            def log_partition(emissions=emissions, transitions=transitions):
                # Edge t → t + 1 is (to, from); the first token joins the first edge.
                edges = emissions[:, 1:, :, None] + transitions.T
                first = torch.cat([emissions[:, :1, None, :], torch.zeros_like(emissions[:, 2:, None, :])], dim=1)
                return LinearChainCRF(edges + first).partition.sum()

            theirs = pass_of(log_partition, emissions, 2)
            lines.append(compared(what.replace("loss", "log-partition"), "torch-struct", 0.01, few, theirs))
    return lines
