"""One class per example, also with latent states."""
