"""Carries out the evaluation of policies: what is cheap on the event loop, the rest in processes that can be killed."""
