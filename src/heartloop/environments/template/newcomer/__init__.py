"""An example environment: a person on their first day at work, whose ease moves after every reply."""
