"""The rules for PathwaysJobs."""
