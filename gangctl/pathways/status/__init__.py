"""What is said of a PathwaysJob, and when."""
