"""A2CiD2: local stochastic gradients, and accelerated gossip between them."""
