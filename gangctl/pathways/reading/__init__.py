"""From a raw object to a PathwaysJob."""
