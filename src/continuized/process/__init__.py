"""The paper: clocks, parameters, flow, coefficients, methods and oracles.  No loop stands here."""
