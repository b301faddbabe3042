"""Decoding of chains by operations of torch alone, for export."""

import torch
from torch import Tensor, nn

from latentstruct.torch.chain import ChainLoss
from latentstruct.torch.chain_truth import SKIPPED


class ViterbiDecoder(nn.Module):
    """The decoding of a `ChainLoss` by operations of torch alone, on any device and for export to ONNX.

    `ChainLoss.decode` gives the same labels and is faster on a CPU. Exported programs have the length T of the example
    that they were exported with; shorter sequences are masked.

    Parameters
    ----------
    head : ChainLoss
        The trained loss, whose transitions and rules are used.

    See Also
    --------
    ChainLoss.decode : Decoding by the kernel.

    Examples
    --------
    >>> import torch
    >>> from latentstruct.torch import ChainLoss, ViterbiDecoder
    >>> decoder = ViterbiDecoder(ChainLoss(5))
    >>> decoder(torch.zeros(2, 3, 5), torch.ones(2, 3, dtype=torch.bool)).shape
    torch.Size([2, 3])
    """

    def __init__(self, head: ChainLoss) -> None:
        super().__init__()
        self.head = head

    def forward(self, emissions: Tensor, mask: Tensor) -> Tensor:
        """Return the best labels (B, T), −100 where there is no token.

        Parameters
        ----------
        emissions : Tensor of shape (B, T, S)
            Scores of labels, batch first.
        mask : Tensor of bool of shape (B, T)
            Where there are tokens; it may have holes.
        """
        transitions, start, end = self.head.scores()
        begun = torch.zeros_like(mask[:, :1])
        best = torch.zeros_like(emissions[:, 0])
        same = torch.arange(self.head.n_labels, device=emissions.device).expand_as(best)
        sources = []
        for t in range(emissions.shape[1]):
            token = mask[:, t, None]
            arriving = (best[:, :, None] + transitions).max(dim=1)
            found = torch.where(begun, arriving.values, start) + emissions[:, t]
            best = torch.where(token, found, best)
            sources.append(torch.where(token & begun, arriving.indices, same))
            begun = begun | token
        label = (best + end).argmax(dim=1, keepdim=True)
        labels = []
        for t in range(emissions.shape[1] - 1, -1, -1):
            labels.append(torch.where(mask[:, t, None], label, SKIPPED))
            label = sources[t].gather(1, label)
        return torch.cat(labels[::-1], dim=1)
