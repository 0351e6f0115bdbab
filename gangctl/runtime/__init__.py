"""Controller machinery: store, informer, work queue, controller, election, events. It knows nothing of gangs."""
