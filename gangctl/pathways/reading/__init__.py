"""From an object that somebody wrote to a PathwaysJob."""
