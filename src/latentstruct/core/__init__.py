"""The core: protocols of structures, oracles and the objective."""
