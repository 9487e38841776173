"""Ways to run nodes for real: a module for each, behind the interface of `crew.Crew`."""
