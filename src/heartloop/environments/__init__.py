"""Environments: user simulators, scenarios and rules, one package per environment, and one turn loop for all of them."""
