"""The status of PathwaysJobs."""
