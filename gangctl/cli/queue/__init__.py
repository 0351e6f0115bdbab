"""``gangctl queue``: the queues of a cluster, and what is in them."""
