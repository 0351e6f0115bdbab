"""The rules for a PathwaysJob, from an object or from flags."""
