"""The core: what a structure provides, what an oracle answers, and the objective that is minimized."""
