"""Answer forms that a prompt may ask for; each is detected from the prompt alone."""
