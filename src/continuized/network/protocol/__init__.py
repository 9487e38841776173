"""What a node says and does: the exchange protocol, one state machine for all transports."""
