"""Asynchronous decentralised learning: a node beside a program that takes its own gradients."""
