"""The dashboards: that they are what the code makes, well formed, and ask for what there is."""
