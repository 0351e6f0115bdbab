"""One-way migration from gangs of other schedulers to gangctl's annotations: Volcano, KAI, coscheduling."""
