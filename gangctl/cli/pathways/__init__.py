"""``gangctl pathways``."""
