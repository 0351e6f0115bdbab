"""One way from the gangs of other schedulers to gangctl's annotations: Volcano, KAI, coscheduling."""
