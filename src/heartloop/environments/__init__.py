"""Simulated people and the rules of talking with them; one package an environment, one turn loop for all."""
