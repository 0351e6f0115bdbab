"""Evaluates policies in bounded time: cheap ones on the event loop, the others in processes that can be killed."""
