"""Losses of chains on scores of a network: CRF, hinge, latent and marginal losses."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from latentstruct.core.protocols import Temperature
from latentstruct.exceptions import Description, InputError
from latentstruct.tasks.chain.rules import TransitionRules
from latentstruct.torch.chain_distribution import ChainDistribution, best_labels
from latentstruct.torch.chain_pools import Layout, Table, chain_arrays, chain_values
from latentstruct.torch.chain_tokens import weighted_token_losses
from latentstruct.torch.chain_truth import Truth, read_truth, without_skipped
from latentstruct.torch.losses import named_loss
from latentstruct.torch.tensors import check_mask, check_tensor, reduce_losses, shape_of, to_array


class ChainLoss(nn.Module):
    """Loss of label sequences on scores of a network.

    The score of labels y is s(y) = start(y_1) + Σ_t u_t(y_t) + Σ_t A[y_{t−1}, y_t] + end(y_T) for emissions u. With
    loss="crf" this is the negative log-likelihood of a linear-chain CRF. `CRF` is the same class.

    Parameters
    ----------
    n_labels : int
        Number of labels, S.
    loss : {"crf", "hinge", "latent_hinge", "marginal"} or Temperature, default="crf"
        With pools at temperatures (ε_y, ε_h) for known and unknown labels, the loss is the pool of all labelings, with
        their costs, minus the pool of those that agree with what is known:

        - "crf": (1, 1) without costs, −log p(known labels);
        - "hinge": (0, 0), a structural SVM, where all labels must be known;
        - "latent_hinge": (0, 0), where unknown labels are maximized on both sides;
        - "marginal": (0, 1), where unknown labels are summed out on both sides;
        - any other pair as a `latentstruct.Temperature`.
    margin : float or array of shape (S, S), optional
        Cost of a wrong label, or costs (true, predicted). By default 1, and 0 for "crf". Unknown labels have no cost.
    rules : TransitionRules, optional
        What may follow what, see `tagging_rules`. Everything else is forbidden in losses and in decoding.
    batch_first : bool, default=True
        Whether tensors are (B, T, …) instead of (T, B, …).

    Attributes
    ----------
    transitions : Parameter of shape (S, S)
        A[z, y], the score of label y after z.
    start_transitions, end_transitions : Parameter of shape (S,)
        Scores of the first and of the last label.

    See Also
    --------
    ChainDistribution : Marginals, samples, the k best and entropy.
    tagging_rules : Rules of BIO, BIOES and BILOU.
    latentstruct.Chain : The same structure on features.

    Notes
    -----
    Values and derivatives are computed in float64 by one kernel call on the CPU, with `torch.get_num_threads` threads.
    Tensors on other devices are copied there and back once. Losses have the type of the emissions, float32 for half
    precision.

    Losses at a single temperature above 0 are differentiable twice. For others, a second derivative raises
    NotImplementedError.

    Emissions of −inf forbid labels. NaN and +inf raise `InputError`.

    The names and shapes of parameters are those of pytorch-crf, so that `load_state_dict` reads its weights.

    Examples
    --------
    >>> import torch
    >>> from latentstruct.torch import ChainLoss
    >>> crf = ChainLoss(5)
    >>> emissions = torch.zeros(2, 3, 5, requires_grad=True)
    >>> tags = torch.tensor([[0, 1, -1], [2, -100, 3]])  # −1 is unknown, −100 is skipped
    >>> crf(emissions, tags).backward()
    >>> crf.decode(emissions).shape
    torch.Size([2, 3])
    """

    def __init__(
        self,
        n_labels: int,
        loss: str | Temperature = "crf",
        margin: Any = None,
        rules: TransitionRules | None = None,
        batch_first: bool = True,
    ) -> None:
        super().__init__()
        if not isinstance(n_labels, int) or n_labels < 1:
            raise InputError("n_labels", n_labels, "an integer of at least 1")
        self.temperature, margin = named_loss(loss, margin)
        self.n_labels, self.loss, self.batch_first = n_labels, loss, batch_first
        self.costs = _cost_table(margin, n_labels)
        self.transitions = nn.Parameter(torch.empty(n_labels, n_labels))
        self.start_transitions = nn.Parameter(torch.empty(n_labels))
        self.end_transitions = nn.Parameter(torch.empty(n_labels))
        shapes = ((n_labels, n_labels), (n_labels,), (n_labels,))
        for name, shape, given in zip(TransitionRules._fields, shapes, rules or (None,) * 3, strict=True):
            allowed = None if given is None else torch.as_tensor(given)
            if allowed is not None and (allowed.shape != shape or allowed.dtype != torch.bool):
                raise InputError(f"rules.{name}", shape_of(allowed), f"a boolean tensor of shape {shape}")
            self.register_buffer(f"forbidden_{name}", None if allowed is None else ~allowed, persistent=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all parameters uniformly from [−0.1, 0.1]."""
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -0.1, 0.1)

    def extra_repr(self) -> str:
        """Return the arguments."""
        return f"{self.n_labels}, loss={self.loss!r}, batch_first={self.batch_first}"

    def forward(
        self,
        emissions: Tensor,
        tags: Tensor,
        mask: Tensor | None = None,
        weights: Tensor | None = None,
        reduction: str = "mean",
    ) -> Tensor:
        """Return the loss.

        Parameters
        ----------
        emissions : Tensor of shape (B, T, S)
            Scores of labels.
        tags : Tensor of shape (B, T) or (B, T, S)
            Integers (B, T): labels, −1 where unknown, −100 where there is no token. Booleans (B, T, S): the possible
            labels of each token. Real numbers (B, T, S): a distribution for each token; its expected score is compared.
        mask : Tensor of bool of shape (B, T), optional
            Where there are tokens, by default everywhere. Other positions may be anywhere; they are left out, so that
            their neighbors follow each other. A sequence without tokens has the loss 0.
        weights : Tensor of shape (B, T), optional
            Weights of tokens: of their costs or, for losses without a margin, of −log p(y_t | known labels before t),
            which add up to the loss. The latter are computed by operations of torch, more slowly.
        reduction : {"none", "sum", "mean", "token_mean"}, default="mean"
            One loss per sequence, (B,), their sum or mean, or the sum divided by the number of tokens.

        Returns
        -------
        Tensor
            The loss, at least 0.
        """
        return self._loss(emissions, tags, mask, weights, reduction, self.temperature, self.costs)

    def log_likelihood(
        self, emissions: Tensor, tags: Tensor, mask: Tensor | None = None, reduction: str = "sum"
    ) -> Tensor:
        """Return log p(tags) at temperature 1, whatever the loss; parameters are those of `forward`."""
        return -self._loss(emissions, tags, mask, None, reduction, Temperature(1.0, 1.0), None)

    def _loss(
        self,
        emissions: Tensor,
        tags: Tensor,
        mask: Tensor | None,
        weights: Tensor | None,
        reduction: str,
        temperature: Temperature,
        costs: Table | None,
    ) -> Tensor:
        emissions, kept = self._check(emissions, mask)
        if not isinstance(tags, Tensor) or tags.shape[:2] != self._given_shape(emissions):
            expected = f"a tensor of shape {self._given_shape(emissions)}, with a third dimension for sets and shares"
            raise InputError("tags", shape_of(tags), expected)
        given = self._batch_first(tags.detach()).cpu().numpy()
        layout = Layout.of((emissions.shape[0], emissions.shape[1]), without_skipped(kept, given))
        truth = self._truth(given, layout)
        if self.loss == "hinge" and costs is not None and truth.hidden().any():
            expected = "known for loss='hinge'"
            raise InputError("tags", Description("unknown labels"), expected, "Use 'latent_hinge' or 'marginal'.")
        blocks = emissions, *self.scores()
        if weights is not None and costs is None:
            if temperature != (1.0, 1.0) or truth.shares is not None:
                got = Description(f"weights with temperatures {tuple(temperature)}")
                raise InputError("weights", got, "used with a margin, or with loss='crf' and without soft labels")
            losses = weighted_token_losses(blocks, layout, truth.sets(), self._weights(weights, emissions))
        else:
            problem = truth.problem(layout, temperature, costs)
            if weights is not None:
                # The pool of all labelings comes first; its costs are its own.
                problem.pools[0].added *= layout.gather(to_array(self._weights(weights, emissions), "weights"))[:, None]
            losses = chain_values(blocks, problem)
        return reduce_losses(losses, reduction, layout.n_tokens)

    def scores(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return the scores of transitions (S, S), of first and of last labels (S,), −inf where rules forbid them."""
        blocks = self.transitions, self.start_transitions, self.end_transitions
        rules = self.forbidden_transitions, self.forbidden_start, self.forbidden_end
        transitions, start, end = (
            block if rule is None else block.masked_fill(rule, -np.inf)  # type: ignore[arg-type]
            for block, rule in zip(blocks, rules, strict=True)
        )
        return transitions, start, end

    def decode(self, emissions: Tensor, mask: Tensor | None = None, tags: Tensor | None = None) -> Tensor:
        """Return the best labels.

        Parameters
        ----------
        emissions, mask : Tensor
            As in `forward`.
        tags : Tensor, optional
            What is known already: labels with −1 where unknown, or booleans for the possible ones, as in `forward`.

        Returns
        -------
        Tensor of int64 of shape (B, T)
            Labels, −100 where there is no token.
        """
        emissions, kept = self._check(emissions, mask)
        layout = Layout.of((emissions.shape[0], emissions.shape[1]), kept)
        scores, transitions = chain_arrays(layout, (emissions, *self.scores()))
        if tags is not None:
            truth = self._truth(self._batch_first(tags.detach()).cpu().numpy(), layout)
            scores[~truth.sets()] = -np.inf
        return self._batch_first(best_labels(layout, scores, transitions)).to(emissions.device)

    def distribution(self, emissions: Tensor, mask: Tensor | None = None) -> ChainDistribution:
        """Return the distribution of labelings at temperature 1."""
        emissions, kept = self._check(emissions, mask)
        mask = None if kept is None else torch.from_numpy(kept)
        return ChainDistribution(emissions, *self.scores(), mask=mask)

    def _batch_first(self, tensor: Tensor) -> Tensor:
        return tensor if self.batch_first else tensor.transpose(0, 1)

    def _given_shape(self, emissions: Tensor) -> tuple[int, ...]:
        return tuple(emissions.shape[:2] if self.batch_first else emissions.shape[1::-1])

    def _check(self, emissions: Tensor, mask: Tensor | None) -> tuple[Tensor, NDArray[np.bool_] | None]:
        """Return the emissions and the mask, both batch first."""
        order = "(B, T, S)" if self.batch_first else "(T, B, S)"
        check_tensor(emissions, "emissions", (None, None, self.n_labels), f"{order} with S = {self.n_labels}")
        emissions = self._batch_first(emissions)
        if mask is None:
            return emissions, None
        return emissions, self._batch_first(check_mask(mask, self._given_shape(emissions))).cpu().numpy()

    def _weights(self, weights: Tensor, emissions: Tensor) -> Tensor:
        shape = self._given_shape(emissions)
        check_tensor(weights, "weights", shape, f"of shape {shape}")
        if not ((weights >= 0) & (weights < np.inf)).all():
            raise InputError("weights", Description("negative or infinite weights"), "finite and at least 0")
        return self._batch_first(weights.detach())

    def _truth(self, given: NDArray[Any], layout: Layout) -> Truth:
        return read_truth(given, layout, self.n_labels, self.batch_first)


CRF = ChainLoss


def _cost_table(margin: Any, n: int) -> Table | None:
    """Return costs (true, predicted), None if there are none."""
    table = np.asarray(margin, dtype=np.float64)
    if table.shape not in ((), (n, n)) or not (np.isfinite(table).all() and (table >= 0).all()):
        raise InputError("margin", margin, f"a number of at least 0 or an array of them of shape {(n, n)}")
    if table.shape == ():
        table = float(table) * (1.0 - np.eye(n))
    if np.diag(table).any():
        raise InputError("margin", margin, "0 for true labels, on the diagonal")
    return table if table.any() else None
