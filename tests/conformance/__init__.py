"""What a client sees of an API server: one suite for the real kube-apiserver of each minor and for the sandbox's."""

import pytest

# Answers are asserted there too.
pytest.register_assert_rewrite("tests.conformance.answers")
