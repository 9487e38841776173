"""Pictures of results, of paths and of networks."""
