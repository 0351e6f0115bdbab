"""Evaluates policies in bounded time: on the event loop what is cheap, the rest in processes that can be killed."""
