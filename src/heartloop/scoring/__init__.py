"""Numbers in, numbers out: no models, files or network."""
