"""``gangctl policy``: CEL policies in an editor, in CI and against what runs, by the functions that admission calls.

One module per verb (``eval``, ``test``, ``lint``, ``bench``, ``list``, ``scan``); the others are
what the verbs share: reading files (``bundle``), places in them (``places``), requests
(``requests``), evaluating (``bench``), printing (``verdicts``, ``junit``).
"""
