"""Carries out the evaluation of policies: on the event loop what is cheap, in processes that can be killed what is not."""
