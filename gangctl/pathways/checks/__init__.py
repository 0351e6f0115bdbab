"""The rules for a PathwaysJob, however it was written."""
