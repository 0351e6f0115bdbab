"""The functional core of Pathways: from a PathwaysJob to its JobSet."""
