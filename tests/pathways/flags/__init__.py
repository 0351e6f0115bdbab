"""PathwaysJobs in flags."""
