"""Tasks with a parameter called `loss`."""

from typing import Any, Self

from latentstruct.tasks.base import BaseTask


class ChosenLossTask(BaseTask):
    """A task whose parameter `loss` is kept as `chosen_loss`, because `loss` is a method of every task."""

    chosen_loss: Any

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters, `loss` among them."""
        return {**super().get_params(deep=False), "loss": self.chosen_loss}

    def set_params(self, **params: Any) -> Self:
        """Set parameters, `loss` among them."""
        self.chosen_loss = params.pop("loss", self.chosen_loss)
        return super().set_params(**params)
