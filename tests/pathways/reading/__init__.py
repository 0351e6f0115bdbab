"""Reading PathwaysJobs."""
