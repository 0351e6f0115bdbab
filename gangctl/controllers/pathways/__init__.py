"""The controller of PathwaysJobs."""
