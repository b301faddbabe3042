"""Settings of all tests."""

from hypothesis import settings

# No test may depend on how busy the machine is.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
