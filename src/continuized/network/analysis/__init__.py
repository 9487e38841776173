"""What can be said of a network before it runs: traffic, and delays that it bears."""
