"""An example environment: somebody on their first day at work, whose ease moves after every reply."""
