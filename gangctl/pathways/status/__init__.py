"""The status and events of a PathwaysJob."""
