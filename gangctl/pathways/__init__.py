"""The functional core of Pathways: what a PathwaysJob means, and the JobSet that it becomes."""
