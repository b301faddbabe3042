"""Every reader on damaged files: ``python -m fuzz`` (slow; see `fuzz.__main__`).

A reader may refuse a file by an error of the library or read it; anything else is a finding: another exception, a
warning, a message that cannot be printed, a crash, a hang, too much memory, or an attempt to run something.
"""
