"""From the gangs of other schedulers to gangctl's."""
